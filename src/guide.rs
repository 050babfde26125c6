//! A guide in pages: what to choose, what to expect, and what to do when it goes wrong.
//!
//! | page | answers |
//! |---|---|
//! | [`choosing`] | which store, and what each promises |
//! | [`fencing`] | how a resource refuses a holder that came too late |
//! | [`lost_locks`] | what happens when a lease ends, and how work stops |
//! | [`cancel_safety`] | what a dropped future leaves behind |
//! | [`testing`] | how to test code that takes locks |
//! | [`writing_a_backend`] | what a store has to do, with three sketches |
//! | [`compatible`] | which servers that speak a store's protocol are tested |
//! | [`migrating`] | what other libraries' calls are called here |

#[doc = include_str!("../docs/guide/choosing.md")]
pub mod choosing {}

#[doc = include_str!("../docs/guide/fencing.md")]
pub mod fencing {}

#[doc = include_str!("../docs/guide/lost_locks.md")]
pub mod lost_locks {}

#[doc = include_str!("../docs/guide/cancel_safety.md")]
pub mod cancel_safety {}

#[doc = include_str!("../docs/guide/testing.md")]
pub mod testing {}

#[doc = include_str!("../docs/guide/writing_a_backend.md")]
pub mod writing_a_backend {}

#[doc = include_str!("../docs/guide/compatible.md")]
pub mod compatible {}

#[doc = include_str!("../docs/guide/migrating.md")]
pub mod migrating {}

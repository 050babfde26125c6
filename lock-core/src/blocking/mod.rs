//! Locks for programs without an async runtime: the same client, by calls that block the calling thread.
//!
//! ```
//! use std::time::Duration;
//! use distlock_core::blocking::LockClient;
//! use distlock_core::Registry;
//!
//! # fn main() -> distlock_core::Result<()> {
//! let client = LockClient::open(Registry::new().connect("memory:"))?;
//! let guard = client.lock("invoice/42")?;
//! println!("token {}, good for {:?}", guard.token(), guard.remaining());
//! guard.unlock()?;
//! assert!(client.shutdown(Duration::from_secs(5)).is_empty());
//! # Ok(()) }
//! ```
//!
//! The asynchronous [`LockClient`](crate::LockClient) and [`LockGuard`](crate::LockGuard) do the work, and promise what they
//! always promise. One thread of the client's own renews, notices losses and releases what was dropped. Clones and guards share
//! it, and it ends when the last of them is gone and what they left has been released.
//!
//! A call that may block panics on a thread that drives async tasks, since it would stop them; what does not block
//! works everywhere. A thread can't be stopped when its lock is lost, so there is no `run`, and
//! [`LockClient::with_lock`] tells of a loss only when its body is done.

mod admin;
mod client;
mod guard;
mod thread;
mod view;

pub use self::admin::LockAdmin;
pub use self::client::LockClient;
pub use self::guard::LockGuard;
pub use self::view::GuardView;

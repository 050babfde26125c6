//! The SQLite backend, by topic. Test binaries run themselves again as other processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::missing_panics_doc,
    reason = "tests stop at the first surprise, time things, and print their seeds"
)]

mod administering;
mod locking;
mod support;

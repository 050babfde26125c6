//! The SQLite backend, by topic. Some tests run this binary again as other processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::future_not_send,
    clippy::missing_panics_doc,
    unreachable_pub,
    reason = "tests stop at the first surprise, time things, and print their seeds"
)]

mod administering;
mod contention;
mod damage;
mod dropping;
mod epochs;
mod locking;
mod opening;
mod pruning;
mod support;
mod together;
mod tokens;
mod waiting;

//! Locks for programs without an async runtime: the same names and promises, by calls that block the calling thread.
//!
//! ```
//! use std::time::Duration;
//! use distlock::{LockOptions, WaitPolicy, blocking};
//!
//! # fn main() -> distlock::Result<()> {
//! let client = blocking::connect("memory:")?;
//! let options = LockOptions::default().wait(WaitPolicy::UpTo(Duration::from_secs(2)));
//! let guard = client.lock_with("invoice/42", &options)?;
//! println!("token {}, good for {:?}", guard.token(), guard.remaining());
//! guard.unlock()?;
//! assert!(client.shutdown(Duration::from_secs(5)).is_empty());
//! # Ok(()) }
//! ```
//!
//! What is different from the asynchronous calls:
//!
//! - **One thread a client.** It renews, notices losses and releases what was dropped, whatever the other threads do. Clones and
//!   guards share it. It ends by itself when the last of them is gone and what they left has been released.
//! - **Not inside an async runtime.** A call that may block panics on a thread that drives async tasks: it would stop them.
//!   Use the asynchronous [`LockClient`](crate::LockClient) there, or call from tokio's `spawn_blocking`. What
//!   does not block works everywhere: looking at a guard, dropping it, [`LockGuard::into_lease`].
//! - **A wait can't be dropped.** Bound it with [`WaitPolicy::UpTo`](crate::WaitPolicy::UpTo), or end it from another
//!   thread by [`LockClient::shutdown`].
//! - **Nothing stops the work when the lock is lost**, since a thread can't be stopped from outside: there is no `run`, and
//!   [`LockClient::with_lock`] tells of the loss only when its body is done. Ask [`LockGuard::is_valid`] between steps, or let
//!   another thread wait in [`GuardView::lost`]; and pass the token to what you write to.
//! - **Before `main` returns**, call [`LockGuard::unlock`] or [`LockClient::shutdown`]: a dropped guard is released by the
//!   client's thread, and that ends with the process.

pub use distlock_core::blocking::{GuardView, LockAdmin, LockClient, LockGuard};

use distlock_core::{ClientOptions, Result};

/// Connects to the store at `url`: `memory:`, or what this build's features bring. Starts the client's thread.
///
/// # Errors
/// As [`distlock::connect`](crate::connect()); [`ErrorKind::Other`](crate::ErrorKind::Other) if the system gives no thread.
///
/// # Panics
/// On a thread that drives async tasks.
#[track_caller]
pub fn connect(url: &str) -> Result<LockClient> {
    LockClient::open(crate::connect(url))
}

/// Connects to the store at `url` with these client options; the URL's own options win.
///
/// # Errors
/// As [`connect`].
///
/// # Panics
/// On a thread that drives async tasks.
#[track_caller]
pub fn connect_with(url: &str, options: ClientOptions) -> Result<LockClient> {
    LockClient::open(crate::connect_with(url, options))
}

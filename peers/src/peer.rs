//! What is asked of each library.

use std::time::Duration;

/// Whatever went wrong, for the report.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Of every lock.
pub const TTL: Duration = Duration::from_secs(30);

/// One library, connected to its store as its documentation has it.
pub trait Peer: Send + Sync + Sized + 'static {
    /// Its name in the report.
    const NAME: &'static str;
    /// The scheme of its store.
    const SCHEME: &'static str;
    /// Schemes of other stores on which it can contend too.
    const ALSO_ON: &'static [&'static str] = &[];
    /// What a reader must know to compare it.
    const DIFFERS: &'static str;
    /// Why it may be faster where nobody else wants the lock; empty if it never was.
    const FASTER_ALONE: &'static str = "";
    /// Why it may be faster where several want the lock; empty if it never was.
    const FASTER_CONTENDED: &'static str = "";

    /// Connects for so many contenders.
    fn open(url: &str, contenders: usize) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// Takes the lock, waiting for it, and gives it back, as this contender.
    fn pair(&self, key: &str, contender: usize) -> impl Future<Output = Result<(), Failure>> + Send;
}

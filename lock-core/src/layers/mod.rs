//! Backends around a backend: each adds one thing to every call and forwards the rest.

#[cfg(feature = "metrics")]
mod measured;
mod namespaced;
mod timed;
#[cfg(feature = "tracing")]
mod traced;
mod unlocking;

use std::sync::Arc;

#[cfg(feature = "metrics")]
pub use self::measured::Measured;
pub use self::namespaced::Namespaced;
pub use self::timed::Timed;
#[cfg(feature = "tracing")]
pub use self::traced::Traced;
pub(crate) use self::unlocking::unlock;
use crate::backend::LockBackend;
use crate::namespace::Namespace;

/// The layers that every client puts around its backend. Spans and metrics show the store's keys,
/// so the namespace comes outermost.
pub(crate) fn standard(backend: Arc<dyn LockBackend>, namespace: Option<&Namespace>) -> Arc<dyn LockBackend> {
    #[cfg(feature = "tracing")]
    let backend: Arc<dyn LockBackend> = Arc::new(Traced::new(backend));
    #[cfg(feature = "metrics")]
    let backend: Arc<dyn LockBackend> = Arc::new(Measured::new(backend));
    match namespace {
        Some(namespace) => Arc::new(Namespaced::new(backend, namespace.clone())),
        None => backend,
    }
}

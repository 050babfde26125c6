//! The thread behind a blocking client.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::client::LockClient;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::waiting::sleep_until;

/// What handles and guards of one client share: the client, and the thread that drives its runtime. The
/// last of them to go lets the thread end.
pub(super) struct ClientThread {
    client: LockClient,
    runtime: Handle,
    end: Option<oneshot::Sender<LockClient>>,
}

impl ClientThread {
    /// Starts the thread, and connects on its runtime.
    #[track_caller]
    pub(super) fn start(connecting: impl Future<Output = Result<LockClient>>) -> Result<Arc<Self>> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed("no runtime could be made", error))?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        thread::Builder::new()
            .name("distlock".to_owned())
            .spawn(move || drive(runtime, ended))
            .map_err(|error| failed("no thread could be started", error))?;
        // Should this fail or panic, `end` is dropped, and the thread ends.
        let client = handle.block_on(connecting)?;
        Ok(Arc::new(Self { client, runtime: handle, end: Some(end) }))
    }

    pub(super) const fn client(&self) -> &LockClient {
        &self.client
    }

    /// Runs `work` on the calling thread, while the client's thread drives timers and connections.
    ///
    /// # Panics
    /// On a thread that drives async tasks, before `work` begins.
    #[track_caller]
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Runs `work` for at most `limit`; `None` when that is over first, with `work` dropped.
    #[track_caller]
    pub(super) fn block_for<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let clock = self.client.clock();
        let until = clock.now().plus(limit);
        self.block_on(async {
            tokio::select! {
                biased;
                done = work => Some(done),
                () = sleep_until(&clock, until) => None,
            }
        })
    }
}

impl fmt::Debug for ClientThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientThread").field(&self.client).finish()
    }
}

impl Drop for ClientThread {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            // Never waited for: this may be a thread that must not block.
            let _ = end.send(self.client.clone());
        }
    }
}

/// Drives the runtime until the client is not needed any more and what it left is released.
fn drive(runtime: Runtime, ended: oneshot::Receiver<LockClient>) {
    runtime.block_on(async {
        if let Ok(client) = ended.await {
            client.released().await;
        }
    });
    // A name that is being looked up must not hold it.
    runtime.shutdown_background();
}

fn failed(what: &str, error: impl StdError + Send + Sync + 'static) -> Error {
    let message = format!("{what} for the client; see the limits of this process");
    Error::new(ErrorKind::Other, message).in_operation(Operation::Connect).caused_by(error)
}

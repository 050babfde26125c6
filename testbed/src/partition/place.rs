//! Where asynchronous work is on a network.

use std::fs::File;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::network;

/// One place of a [`Partition`](super::Partition), for tasks. Their connections come from there, also those
/// that a client opens later in the background. Dropping it ends the tasks.
#[derive(Debug)]
pub struct Place {
    /// It is there until the drop.
    runtime: Option<Runtime>,
}

impl Place {
    pub(super) fn new(namespace: File) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .on_thread_start(move || network::enter(&namespace))
            .build()
            .expect("a runtime can be built");
        Self { runtime: Some(runtime) }
    }

    /// Starts a task here.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.runtime.as_ref().expect("it is there until the drop").spawn(task)
    }

    /// Runs a task here, and gives its result.
    ///
    /// # Cancel safety
    /// Dropped, the task runs on.
    pub async fn run<F>(&self, task: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.spawn(task).await.expect("the task does not panic")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Waiting for the tasks is not allowed inside of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

//! Measures how late this machine runs what is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::history::nanos;

const TICK: Duration = Duration::from_millis(5);

/// A thread and a task that sleep a little, over and over, and note how much they overslept.
#[derive(Debug)]
pub struct Canary {
    worst: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Canary {
    /// Starts measuring, on this runtime and beside it.
    #[must_use]
    pub fn start() -> Self {
        let worst = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (thread_worst, thread_stop) = (Arc::clone(&worst), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !thread_stop.load(Ordering::Relaxed) {
                let before = Instant::now();
                std::thread::sleep(TICK);
                note(&thread_worst, before);
            }
        });
        let task_worst = Arc::clone(&worst);
        let task = tokio::spawn(async move {
            loop {
                let before = Instant::now();
                tokio::time::sleep(TICK).await;
                note(&task_worst, before);
            }
        });
        Self { worst, stop, task }
    }

    /// The longest delay so far.
    #[must_use]
    pub fn worst(&self) -> Duration {
        Duration::from_nanos(self.worst.load(Ordering::Relaxed))
    }
}

fn note(worst: &AtomicU64, before: Instant) {
    worst.fetch_max(nanos(before.elapsed().saturating_sub(TICK)), Ordering::Relaxed);
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}

//! A client that lives through all of a long run, and shows what is left of it in the end.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Partition;
use crate::lockprobe::{Order, Probe, Resident, Scripted, millis};

/// How long it works before its memory counts: pools and caches fill first.
const WARM_UP: Duration = Duration::from_secs(30);
/// How long one round of its work is.
const ROUND: Duration = Duration::from_secs(1);

/// It locks one key after the other, whatever happens, and nothing is done to it but to what it talks to.
pub(crate) struct Witness {
    key: String,
    ttl: Duration,
    before: Resident,
    stop: watch::Sender<bool>,
    work: JoinHandle<Scripted>,
}

/// What it showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Testimony {
    /// How long it took to get a lock after the last trouble.
    pub(crate) recovery: Duration,
    /// Its memory before the troubles and after the rest.
    pub(crate) memory: (Resident, Resident),
}

impl Witness {
    /// Starts one, and returns when it is warm.
    pub(crate) async fn start(
        url: &str,
        folder: &Path,
        key: &str,
        ttl: Duration,
        place: Option<&(Arc<Partition>, String)>,
        warm_up: Option<Duration>,
    ) -> Self {
        let mut program = Probe::this_program_at(place);
        // With glibc each thread has a heap of its own, which keeps what that thread needed once.
        program.env("MALLOC_ARENA_MAX", "1");
        let mut probe = Scripted::start(program, url, folder).await;
        let key = format!("{key}/witness");
        let end = Instant::now() + warm_up.unwrap_or(WARM_UP);
        while Instant::now() < end {
            probe.ask(&round(&key, ttl)).await;
            // Later troubles lead to servers that it had no connection to.
            probe.ask(&Order::Probe).await;
        }
        let before = probe.resident();
        let (stop, stopped) = watch::channel(false);
        let of_round = round(&key, ttl);
        let work = tokio::spawn(async move {
            while !*stopped.borrow() {
                // Failures are expected; they don't come faster than this.
                probe.ask(&of_round).await;
                tokio::time::sleep(ROUND / 10).await;
            }
            probe
        });
        Self { key, ttl, before, stop, work }
    }

    /// Lets it get one more lock, and rest.
    pub(crate) async fn testify(self, rest: Duration) -> Testimony {
        let began = Instant::now();
        let _ = self.stop.send(true);
        let mut probe = self.work.await.expect("the witness does not panic");
        probe.lock(&format!("{}/after", self.key), self.ttl, Duration::from_secs(60)).await;
        let recovery = began.elapsed();
        probe.ask(&Order::Unlock).await;
        tokio::time::sleep(rest).await;
        let memory = (self.before, probe.resident());
        probe.finish().await;
        Testimony { recovery, memory }
    }
}

fn round(key: &str, ttl: Duration) -> Order {
    Order::Churn { prefix: key.to_owned(), ttl: millis(ttl), within: millis(ROUND) }
}

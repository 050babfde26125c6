//! A holder that is stopped between its read and its write: what has to do harm wherever no fence is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_conformance::history::{Event, What};

use crate::Partition;
use crate::lockprobe::{self, Answer, Order, Probe, Scripted, Work};

/// Far more than a lock takes to change hands, a dead session's among them.
const AMPLE: Duration = Duration::from_secs(60);

/// What came of it. It is a history by itself: its stop, which is long, would lengthen the time that the checks allow
/// other clients for a late answer.
pub(super) struct StoppedHolder {
    pub(super) events: Vec<Event>,
    /// What the store gave them.
    pub(super) ttl: Duration,
}

impl StoppedHolder {
    /// A holder reads what its lock protects, and is stopped for three ttls and until a rival has got the lock and has
    /// written; then it goes on, and writes as well.
    pub(super) async fn observe(work: &Work, place: Option<&(Arc<Partition>, String)>) -> Self {
        let folder = work.folder.join("stopped");
        std::fs::create_dir_all(&folder).expect("the folder is writable");
        let start = || Scripted::start(Probe::this_program_at(place), &work.url, &folder);
        let (mut holder, mut rival) = (start().await, start().await);
        let key = format!("{}/stopped", work.keys.first().expect("there is work"));
        hold(&mut holder, &key, work.ttl).await;
        holder.pause();
        let stopped = Instant::now();
        hold(&mut rival, &key, work.ttl).await;
        rival.ask(&Order::Write).await;
        tokio::time::sleep((work.ttl * 3).saturating_sub(stopped.elapsed())).await;
        holder.resume();
        holder.ask(&Order::Write).await;
        for mut probe in [holder, rival] {
            probe.ask(&Order::Unlock).await;
            probe.finish().await;
        }
        let events = lockprobe::histories(&folder).expect("the histories can be read");
        let ttls = events.iter().filter_map(|event| match event.what {
            What::Granted { ttl, .. } => Some(Duration::from_nanos(ttl)),
            _ => None,
        });
        let ttl = ttls.max().expect("they got their locks");
        Self { events, ttl }
    }
}

/// Takes the lock, and reads what it protects.
async fn hold(probe: &mut Scripted, key: &str, ttl: Duration) {
    probe.lock(key, ttl, AMPLE).await;
    assert_eq!(probe.ask(&Order::Read).await, Answer::Read);
}

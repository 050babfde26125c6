//! Tasks that take locks and give them back, and how long it took them.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use distlock_bench::compare::{PeerOrder, PeerRound};
use hdrhistogram::Histogram;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::peer::{Failure, Peer};

/// One round, after a warm-up of a tenth of it. Pairs that are not over when it ends don't count: a waiter may
/// come to its turn much later. What they leave is on keys that nobody asks for again.
pub async fn round<P: Peer>(order: &PeerOrder) -> Result<PeerRound, Failure> {
    let peer = Arc::new(P::open(&order.url, order.contenders).await?);
    let length = Duration::from_millis(order.millis);
    work(&peer, order, length / 10).await?;
    let began = Instant::now();
    let times = work(&peer, order, length).await?;
    Ok(PeerRound {
        operations: times.len(),
        elapsed_us: began.elapsed().as_secs_f64() * 1e6,
        p50_us: times.value_at_quantile(0.5) as f64 / 1e3,
        p99_us: times.value_at_quantile(0.99) as f64 / 1e3,
        error: None,
    })
}

async fn work<P: Peer>(
    peer: &Arc<P>,
    order: &PeerOrder,
    length: Duration,
) -> Result<Histogram<u64>, Failure> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let times = Arc::new(Mutex::new(Histogram::<u64>::new(3)?));
    let mut tasks = JoinSet::new();
    for contender in 0..order.contenders {
        let lane = if order.one_key { 0 } else { contender };
        let key = format!("bench-peer/{}/{lane}", since.as_nanos());
        let (peer, times) = (Arc::clone(peer), Arc::clone(&times));
        tasks.spawn(async move {
            loop {
                let called = Instant::now();
                peer.pair(&key, contender).await?;
                let nanos = u64::try_from(called.elapsed().as_nanos())?;
                times.lock().await.record(nanos)?;
            }
            #[expect(unreachable_code, reason = "says what the task would give")]
            Ok::<(), Failure>(())
        });
    }
    let end = tokio::time::sleep(length);
    tokio::select! {
        () = end => {}
        Some(ended) = tasks.join_next() => ended??,
    }
    tasks.shutdown().await;
    let times = times.lock().await;
    Ok(times.clone())
}

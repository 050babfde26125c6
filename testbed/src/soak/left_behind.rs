//! What clients that are gone left in the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Partition;
use crate::lockprobe::{Answer, Order, Probe, Scripted, Work};

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits until no lock whose key begins with `prefix` is held or waited for, at most so long, and says which still are.
pub(super) async fn wait(
    work: &Work,
    place: Option<&(Arc<Partition>, String)>,
    prefix: &str,
    limit: Duration,
) -> Vec<String> {
    let folder = work.folder.join("inspector");
    std::fs::create_dir_all(&folder).expect("the folder is writable");
    let mut inspector = Scripted::start(Probe::this_program_at(place), &work.url, &folder).await;
    let deadline = Instant::now() + limit;
    let left = loop {
        let left = match inspector.ask(&Order::List { prefix: prefix.to_owned() }).await {
            Answer::Listed { locks } => locks,
            other => vec![format!("the store did not list its locks: {other:?}")],
        };
        if left.is_empty() || Instant::now() >= deadline {
            break left;
        }
        tokio::time::sleep(PAUSE).await;
    };
    inspector.finish().await;
    left
}

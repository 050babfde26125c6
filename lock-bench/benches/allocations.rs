//! How often the core allocates, on the memory store: `cargo bench -p distlock-bench --bench allocations`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "this program's output; it fails by panicking")]

use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use distlock::{LockClient, MemoryBackend};
use tokio::runtime::Runtime;

const TIMES: u64 = 1000;

fn main() {
    println!("allocations and bytes for each, on the memory store:");
    row("lock and unlock a free lock", |client| async move {
        client.lock("k").await.unwrap().unlock().await.unwrap();
    });
    row("lock a free lock and drop the guard", |client| async move {
        drop(client.lock("k").await.unwrap());
        tokio::task::yield_now().await;
    });
    row("pass a lock on inside a client", |client| async move {
        let guard = client.lock("k").await.unwrap();
        let (next, _) = tokio::join!(client.lock("k"), guard.unlock());
        next.unwrap().unlock().await.unwrap();
    });
}

fn row<F: Future<Output = ()>>(name: &str, work: impl Fn(LockClient) -> F) {
    let runtime: Runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = LockClient::new(Arc::new(MemoryBackend::new()));
    let some = |times: u64| {
        runtime.block_on(async {
            for _ in 0..times {
                work(client.clone()).await;
            }
        });
    };
    // Buffers that grow once and stay.
    some(100);
    let AllocationInfo { count_total, bytes_total, .. } = measure(|| some(TIMES));
    let each = |sum: u64| sum as f64 / TIMES as f64;
    println!("{name}: {:.2} allocations, {:.0} bytes", each(count_total), each(bytes_total));
}

//! How much heap a held lock takes: `cargo bench -p distlock-bench --bench heap [-- URL [SECONDS]]`.
#![allow(clippy::print_stdout, reason = "this program's output")]

use std::time::Duration;

use distlock::{Claim, Error, ErrorKind, LockBackend, LockKey, LockRequest, MemoryBackend, Metadata, Result};
use distlock_bench::{BenchOptions, Scenario};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const LOCKS: usize = 10_000;

#[tokio::main]
async fn main() -> Result<()> {
    // Cargo adds an argument of its own.
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let url = arguments.next().unwrap_or_else(|| "memory:".to_owned());
    let seconds = match arguments.next().map(|text| text.parse()) {
        None => 2,
        Some(Ok(seconds)) => seconds,
        Some(Err(_)) => return Err(Error::new(ErrorKind::InvalidOptions, "write URL and whole seconds")),
    };
    if url == "memory:" {
        println!("{} bytes of heap for a lock in the memory store alone", memory_store().await?);
    }
    let options = BenchOptions::new(Scenario::Held)
        .contenders(LOCKS)
        .duration(Duration::from_secs(seconds))
        .heap(|| HEAP.current_usage());
    let figures = distlock_bench::run(&distlock::registry(), &url, &options).await?;
    println!("{}", serde_json::to_string(&figures).unwrap_or_default());
    Ok(())
}

/// What the store itself keeps for each lock, without a client.
async fn memory_store() -> Result<usize> {
    let store = MemoryBackend::new();
    let metadata = Metadata::of_this_process();
    let before = HEAP.current_usage();
    for n in 0..LOCKS {
        let claim = Claim::mint(LockKey::new(format!("held/{n}"))?);
        let request = LockRequest::new(claim, Duration::from_secs(10)).metadata(metadata.clone());
        store.try_lock(&request).await?;
    }
    Ok((HEAP.current_usage() - before) / LOCKS)
}

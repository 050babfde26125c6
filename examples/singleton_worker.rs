//! Of several processes one is active, and the others stand by. Start it in two shells. Ctrl-C or SIGTERM in the active one: it
//! ends the piece of work it is at, gives the lock back, and another goes on at once. `kill -9` it: another goes on when
//! the lease is over. `distlock force-unlock singleton-worker` takes the lock away: the work is dropped, and the
//! process stands by again.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::time::Duration;

use distlock::{LockGuard, LockOptions};
use distlock_examples::{StopSignal, data_folder, shared_url};

const KEY: &str = "singleton-worker";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut stop = StopSignal::listen()?;
    let client = distlock::connect(&shared_url(&data_folder()?)).await?;
    // How long the others wait for a process that died.
    let options = LockOptions::default().ttl(Duration::from_secs(5));
    let mut is_stopped = false;
    while !is_stopped {
        println!("Standing by.");
        let guard = tokio::select! {
            guard = client.lock_with(KEY, &options) => guard?,
            () = stop.received() => break,
        };
        is_stopped = be_active(guard, &mut stop).await?;
    }
    let left = client.shutdown(Duration::from_secs(5)).await;
    println!("Stopped; {} locks are left to their ttl.", left.claims.len());
    Ok(())
}

/// Works until the process is to stop, which gives `true`, or the lock is lost.
async fn be_active(guard: LockGuard, stop: &mut StopSignal) -> distlock::Result<bool> {
    println!("Active with token {}.", guard.token());
    let mut pieces = 0_u32;
    // `run` drops the work in the middle of a piece when the lock is lost: somebody else may be active by then.
    match guard.run(work(&mut pieces, stop)).await {
        Ok(()) => {
            // Others see it at once, and need not wait for the lease to end.
            println!("Handing over after {pieces} pieces: {:?}.", guard.unlock().await?);
            Ok(true)
        }
        Err(error) => {
            println!("Dropped the work after {pieces} pieces: {}.", error.message());
            Ok(false)
        }
    }
}

/// Does piece after piece. A signal ends it between two of them.
async fn work(pieces: &mut u32, stop: &mut StopSignal) {
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        *pieces += 1;
        tokio::select! {
            () = stop.received() => return,
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    }
}

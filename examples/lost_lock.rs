//! A holder whose lock is lost, and what it does about it. On `memory:` the store falls silent, so
//! that the holder is warned first; on other stores an operator takes the lock away.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use distlock::{GuardView, LockClient, LockOptions, LockState, MemoryBackend};
use distlock_examples::lock_url;

const KEY: &str = "report/monthly";

#[tokio::main]
async fn main() -> distlock::Result<()> {
    let store = Arc::new(MemoryBackend::new());
    let url = lock_url();
    let in_memory = url.starts_with("memory:");
    let client = if in_memory {
        LockClient::new(Arc::<MemoryBackend>::clone(&store))
    } else {
        distlock::connect(&url).await?
    };

    let options = LockOptions::default().ttl(Duration::from_millis(1500));
    let guard = client.lock_with(KEY, &options).await?;
    println!("Holding {KEY} with token {}.", guard.token());

    let in_danger = AtomicBool::new(false);
    // `run` drops the work as soon as the lock is lost; what it has done by then stays done.
    let work = guard.run(work(&in_danger));
    let trouble = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        if in_memory {
            println!("-- The store falls silent.");
            store.faults().silence(true);
        } else {
            println!("-- An operator takes the lock away.");
            client.admin()?.force_unlock(guard.key()).await?;
        }
        Ok::<(), distlock::Error>(())
    };
    let (worked, (), troubled) = tokio::join!(work, watch(guard.view(), &in_danger), trouble);
    troubled?;
    if let Err(error) = worked {
        println!("The work was stopped: {error}.");
    }
    println!("Giving it back changes nothing any more: {:?}.", guard.unlock().await?);
    Ok(())
}

/// Works step by step, and begins no new one while the lock is in danger.
async fn work(in_danger: &AtomicBool) {
    for step in 1.. {
        while in_danger.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        println!("Step {step}.");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Tells what becomes of the lock, until it is lost.
async fn watch(lock: GuardView, in_danger: &AtomicBool) {
    let mut state = lock.state();
    loop {
        state = lock.state_changed(state).await;
        match state {
            LockState::Jeopardy => {
                println!(
                    "In jeopardy: not renewed for half its ttl. It is good for another while, but no new step is begun."
                );
                in_danger.store(true, Ordering::Relaxed);
            }
            LockState::Held => {
                println!("Renewed again: going on.");
                in_danger.store(false, Ordering::Relaxed);
            }
            LockState::Lost(reason) => return println!("Lost: {reason}."),
            _ => return,
        }
    }
}

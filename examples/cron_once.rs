//! A job that every machine starts at the same time and that must run once. Five tasks stand for five
//! machines; with `DISTLOCK_URL=sqlite:/tmp/locks.db` start the program twice to see it with processes.
//! Who comes too late has nothing to do, which is a success.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::time::Duration;

use distlock::LockClient;
use distlock_examples::lock_url;
use tokio::task::JoinSet;

const JOB: &str = "nightly-report";
/// The job may be done sooner than the last machine's clock strikes. So the lock is held at least
/// this long: more than the clocks differ.
const HOLD_AT_LEAST: Duration = Duration::from_millis(800);

#[tokio::main]
async fn main() -> distlock::Result<()> {
    let client = distlock::connect(&lock_url()).await?;
    let mut machines = JoinSet::new();
    for machine in 1..=5_u32 {
        let client = client.clone();
        machines.spawn(async move {
            // Clocks differ a little.
            tokio::time::sleep(Duration::from_millis(20) * machine).await;
            at_midnight(&client, machine).await
        });
    }
    while let Some(machine) = machines.join_next().await {
        machine.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    }
    client.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

async fn at_midnight(client: &LockClient, machine: u32) -> distlock::Result<()> {
    let Some(guard) = client.try_lock(JOB).await? else {
        println!("Machine {machine}: somebody else runs the job, nothing to do.");
        return Ok(());
    };
    let at_least = tokio::time::sleep(HOLD_AT_LEAST);
    println!("Machine {machine}: runs the job with token {}.", guard.token());
    // Dropped when the lock is lost: then another machine may have begun.
    let report = guard.run(write_report()).await?;
    println!("Machine {machine}: {report}.");
    at_least.await;
    guard.unlock().await?;
    Ok(())
}

async fn write_report() -> &'static str {
    tokio::time::sleep(Duration::from_millis(50)).await;
    "the report is written"
}

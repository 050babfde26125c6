//! Every instance of a service starts with it: the first one migrates the data, the others wait until that is done, and then all
//! go on. If the one that migrates dies, the next takes over with a higher token, and begins where it stopped; had the
//! dead one only been asleep, its late write would be refused. Start it in several shells, the first with
//! `CRASH_AFTER=2`.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::time::Duration;

use distlock::{FencedFile, LockGuard, LockOptions};
use distlock_examples::{data_folder, read_number, shared_url};

const KEY: &str = "migration";
const STEPS: [&str; 4] = ["create the tables", "add the index", "copy the old rows", "drop the old table"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = data_folder()?;
    let client = distlock::connect(&shared_url(&folder)).await?;
    // The number of the last step that was done. A database would keep it in a table, behind a `FenceTable`.
    let version = FencedFile::new(folder.join("schema-version"), KEY)?;
    let options = LockOptions::default().ttl(Duration::from_secs(3));
    // Whoever finds it done needs no lock.
    while !is_done(&version)? {
        println!("Waiting for the right to migrate.");
        let guard = client.lock_with(KEY, &options).await?;
        match migrate(&guard, &version).await {
            Ok(()) => {
                guard.unlock().await?;
            }
            // Somebody else goes on with it, and this process waits for that.
            Err(error) if error.downcast_ref().is_some_and(distlock::Error::is_lost) => {
                println!("Lost the right to migrate: {error}.");
            }
            Err(error) => return Err(error),
        }
    }
    println!("Serving with version {} of the schema.", STEPS.len());
    client.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

fn is_done(version: &FencedFile) -> std::io::Result<bool> {
    Ok(read_number(version.path())? as usize >= STEPS.len())
}

async fn migrate(guard: &LockGuard, version: &FencedFile) -> Result<(), Box<dyn Error>> {
    // Read under the lock: another process may have migrated while this one waited.
    let done = read_number(version.path())?;
    if is_done(version)? {
        println!("Another process has migrated.");
        return Ok(());
    }
    println!("Migrating from version {done} with token {}.", guard.token());
    for (number, step) in (1_u32..).zip(STEPS).skip(done as usize) {
        // Dropped in the middle when the lock is lost. A step must bear being begun twice.
        guard.run(apply()).await?;
        version.write(guard.token(), number.to_string().as_bytes())?;
        println!("Step {number}: {step}.");
        if std::env::var("CRASH_AFTER").is_ok_and(|after| after == number.to_string()) {
            println!("Crashing.");
            std::process::abort();
        }
    }
    Ok(())
}

async fn apply() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

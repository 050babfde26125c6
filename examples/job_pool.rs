//! Many jobs, and workers in as many processes as you start. The jobs are sharded: a worker takes a shard's lock and does the
//! shard's jobs in turn, so that a lock is taken once for many jobs. How far a shard got is written with the lock's token, and whoever
//! comes later goes on from there. So each job is done once; the one at which a process dies is begun again.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use distlock::{FencedFile, LockClient, LockGuard, LockOptions, WaitPolicy};
use distlock_examples::{data_folder, read_number, shared_url};
use tokio::task::JoinSet;

const WORKERS: usize = 3;
const SHARDS: usize = 6;
const JOBS_OF_A_SHARD: u32 = 5;

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Done<()> {
    let folder = data_folder()?;
    let client = distlock::connect(&shared_url(&folder)).await?;
    let mut workers = JoinSet::new();
    for worker in 1..=WORKERS {
        workers.spawn(work(worker, client.clone(), folder.clone()));
    }
    let mut done = 0;
    while let Some(worker) = workers.join_next().await {
        done += worker.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    }
    println!("{done} jobs done here, {} in all.", SHARDS * JOBS_OF_A_SHARD as usize);
    client.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// Takes shard after shard until all jobs of all shards are done; returns how many it did.
async fn work(worker: usize, client: LockClient, folder: PathBuf) -> Done<u32> {
    let options = LockOptions::default().ttl(Duration::from_secs(3));
    let patient = options.clone().wait(WaitPolicy::UpTo(Duration::from_secs(1)));
    let mut done = 0;
    loop {
        // Each worker begins with another shard, so that they seldom ask for the same.
        let order = (0..SHARDS).map(|at| (worker + at) % SHARDS);
        let mut open = Vec::new();
        let mut taken = None;
        for shard in order {
            let progress = progress_of(&folder, shard)?;
            if read_number(progress.path())? < JOBS_OF_A_SHARD {
                if let Some(guard) = client.try_lock_with(key(shard), &options).await? {
                    taken = Some((shard, guard));
                    break;
                }
                open.push(shard);
            }
        }
        if taken.is_none() {
            let Some(&shard) = open.first() else { return Ok(done) };
            // All that are left have a worker. It may die: so wait for its lock, and look again now and then.
            taken = match client.lock_with(key(shard), &patient).await {
                Ok(guard) => Some((shard, guard)),
                Err(error) if error.is_wait_timeout() => None,
                Err(error) => return Err(error.into()),
            };
        }
        if let Some((shard, guard)) = taken {
            let did = work_off(worker, shard, &guard, &progress_of(&folder, shard)?).await;
            match did {
                Ok(did) => {
                    done += did;
                    guard.unlock().await?;
                }
                Err(error) if error.downcast_ref().is_some_and(distlock::Error::is_lost) => {
                    println!("Worker {worker}: lost shard {shard}, which another goes on with.");
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Does what is left of a shard, from where the worker before it stopped.
async fn work_off(worker: usize, shard: usize, guard: &LockGuard, progress: &FencedFile) -> Done<u32> {
    let before = read_number(progress.path())?;
    for job in before + 1..=JOBS_OF_A_SHARD {
        guard.run(do_job()).await?;
        // Refused if somebody else has taken the shard meanwhile.
        progress.write(guard.token(), job.to_string().as_bytes())?;
        println!("Worker {worker}: did job {job} of shard {shard}, with token {}.", guard.token());
    }
    Ok(JOBS_OF_A_SHARD.saturating_sub(before))
}

async fn do_job() {
    tokio::time::sleep(Duration::from_millis(30)).await;
}

fn key(shard: usize) -> String {
    format!("shard/{shard}")
}

fn progress_of(folder: &std::path::Path, shard: usize) -> distlock::Result<FencedFile> {
    FencedFile::new(folder.join(format!("shard-{shard}")), key(shard))
}

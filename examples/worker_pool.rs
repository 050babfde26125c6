//! Workers take jobs from a queue. Jobs of one customer must not run at the same time, here or in
//! other processes, so each runs under its customer's lock. A worker waits for a lock only so long,
//! and puts the job back instead. Ctrl-C ends the program in order: no new jobs, running ones are
//! finished, every lock is given back.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use distlock::{LockClient, LockOptions, WaitPolicy};
use distlock_examples::lock_url;
use tokio::sync::watch;
use tokio::task::JoinSet;

const WORKERS: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Job {
    number: u32,
    customer: u32,
}

#[derive(Default)]
struct Queue(Mutex<VecDeque<Job>>);

impl Queue {
    fn push(&self, job: Job) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
    }

    fn pop(&self) -> Option<Job> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

#[tokio::main]
async fn main() -> distlock::Result<()> {
    let client = distlock::connect(&lock_url()).await?;
    let jobs = std::env::var("JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(12);
    let queue = Arc::new(Queue::default());
    for number in 1..=jobs {
        queue.push(Job { number, customer: number % 3 });
    }

    let (stop, stopped) = watch::channel(false);
    let mut workers = JoinSet::new();
    for worker in 1..=WORKERS {
        workers.spawn(work(worker, client.clone(), Arc::clone(&queue), stopped.clone()));
    }
    let mut done = 0;
    loop {
        tokio::select! {
            worker = workers.join_next() => match worker {
                Some(worker) => done += worker.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?,
                None => break,
            },
            _ = tokio::signal::ctrl_c(), if !*stop.borrow() => {
                println!("Stopping: running jobs are finished, no new ones begun.");
                stop.send_replace(true);
            }
        }
    }
    println!("{done} jobs done.");

    // Releases what is still held, and says what it could not release.
    let left = client.shutdown(Duration::from_secs(5)).await;
    match left.claims.len() {
        0 => println!("No lock is left behind."),
        locks => println!("{locks} locks are left to their ttl: the store did not answer."),
    }
    Ok(())
}

/// Takes jobs until there are none or the program stops; returns how many it did.
async fn work(
    worker: usize,
    client: LockClient,
    queue: Arc<Queue>,
    stopped: watch::Receiver<bool>,
) -> distlock::Result<u32> {
    let options =
        LockOptions::default().ttl(Duration::from_secs(5)).wait(WaitPolicy::UpTo(Duration::from_millis(500)));
    let mut done = 0;
    while !*stopped.borrow()
        && let Some(job) = queue.pop()
    {
        let key = format!("customer/{}", job.customer);
        // The body is dropped when the lock is lost.
        match client.with_lock_with(key, &options, |_| bill(worker, job)).await {
            Ok(()) => done += 1,
            Err(error) if error.is_wait_timeout() => {
                println!(
                    "Worker {worker}: customer {} is busy for too long, job {} goes back.",
                    job.customer, job.number
                );
                queue.push(job);
            }
            Err(error) if error.is_lost() => {
                println!("Worker {worker}: lost the lock during job {}, which goes back.", job.number);
                queue.push(job);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

async fn bill(worker: usize, job: Job) {
    println!("Worker {worker}: job {} for customer {}.", job.number, job.customer);
    tokio::time::sleep(Duration::from_millis(30)).await;
}

//! One process takes a lock, does the first half of the work, and hands the lock to another process, which does the second half
//! and gives the lock back. In between nobody else can get it, and the token stays the same. Without an async
//! runtime, by the blocking calls.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use distlock::blocking::{self, LockClient};
use distlock::{Lease, LockOptions};
use distlock_examples::{data_folder, shared_url};

const KEY: &str = "export";

fn main() -> Result<(), Box<dyn Error>> {
    let client = blocking::connect(&shared_url(&data_folder()?))?;
    if std::env::args().nth(1).as_deref() == Some("second-half") {
        second_half(&client)?;
    } else {
        first_half(&client)?;
    }
    client.shutdown(Duration::from_secs(5));
    Ok(())
}

fn first_half(client: &LockClient) -> Result<(), Box<dyn Error>> {
    // Nobody renews the lease on its way: it must live until the other process has adopted it.
    let guard = client.lock_with(KEY, &LockOptions::default().ttl(Duration::from_secs(20)))?;
    let token = guard.token();
    println!("First process: holding `{KEY}` with token {token}.");

    let mut second =
        Command::new(std::env::current_exe()?).arg("second-half").stdin(Stdio::piped()).spawn()?;
    let lease = guard.into_lease();
    if let Some(to_second) = second.stdin.take()
        && let Err(error) = serde_json::to_writer(to_second, &lease)
    {
        // It never got it: so give it back here.
        client.adopt(lease)?.unlock()?;
        return Err(error.into());
    }
    // From here on the lock is the other process's; if that dies, the lease runs out.
    let ended = second.wait()?;
    if !ended.success() {
        return Err(format!("the second process failed: {ended}").into());
    }
    let next = client.lock(KEY)?;
    println!(
        "First process: the lock is free again; the next holder's token is higher: {}.",
        next.token() > token
    );
    next.unlock()?;
    Ok(())
}

fn second_half(client: &LockClient) -> Result<(), Box<dyn Error>> {
    let lease: Lease = serde_json::from_reader(io::stdin())?;
    // Renews it first, so that it is known to be held, and from now on in the background.
    let guard = client.adopt(lease)?;
    println!("Second process: holding `{}` with token {}.", guard.key(), guard.token());
    println!("Nobody else gets it meanwhile: {}.", client.try_lock(KEY)?.is_none());
    println!("Second process: gives it back: {:?}.", guard.unlock()?);
    Ok(())
}

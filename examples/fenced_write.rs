//! Two programs add to a balance in a file, each under the lock. The first stalls for longer than its
//! ttl, as a program does when its machine is suspended, and then writes as if nothing had happened.
//! A plain file loses the second one's update; a fenced file refuses the late write.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use distlock::{FencedFile, FencingToken, LockClient, LockOptions, RenewPolicy};
use distlock_examples::lock_url;

type Failure = Box<dyn Error + Send + Sync>;

const ACCOUNT: &str = "account/7";

/// How a balance gets into its file.
trait Register: Sync {
    fn write(&self, token: FencingToken, balance: u64) -> distlock::Result<()>;
    fn path(&self) -> &Path;

    fn read(&self) -> Result<u64, Failure> {
        Ok(fs::read_to_string(self.path())?.parse()?)
    }
}

/// Writes whatever it is told to.
struct Plain<'a>(&'a Path);

impl Register for Plain<'_> {
    fn write(&self, _: FencingToken, balance: u64) -> distlock::Result<()> {
        fs::write(self.0, balance.to_string()).map_err(|error| {
            distlock::Error::new(distlock::ErrorKind::Unavailable, "can't write").caused_by(error)
        })
    }

    fn path(&self) -> &Path {
        self.0
    }
}

impl Register for FencedFile {
    fn write(&self, token: FencingToken, balance: u64) -> distlock::Result<()> {
        Self::write(self, token, balance.to_string().as_bytes())
    }

    fn path(&self) -> &Path {
        Self::path(self)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let client = distlock::connect(&lock_url()).await?;
    let folder = tempfile::tempdir()?;

    println!("A plain file:");
    fs::write(folder.path().join("plain"), "100")?;
    two_deposits(&client, &Plain(&folder.path().join("plain"))).await?;

    println!("A fenced file:");
    fs::write(folder.path().join("fenced"), "100")?;
    two_deposits(&client, &FencedFile::new(folder.path().join("fenced"), ACCOUNT)?).await?;
    Ok(())
}

/// Adds 10 and 20 to a balance of 100, with a stall in between.
async fn two_deposits(client: &LockClient, register: &impl Register) -> Result<(), Failure> {
    // Nothing renews this lock, just as nothing would while the whole machine stands still.
    let stalling = LockOptions::default().ttl(Duration::from_millis(300)).renew(RenewPolicy::Manual);
    let first = client.lock_with(ACCOUNT, &stalling).await?;
    let seen = register.read()?;
    println!("  first:  holds token {}, reads {seen}, and stalls for longer than its ttl", first.token());
    first.lost().await;

    let second = client.lock(ACCOUNT).await?;
    let balance = register.read()? + 20;
    register.write(second.token(), balance)?;
    println!("  second: holds token {}, adds 20, and writes {balance}", second.token());
    second.unlock().await?;

    match register.write(first.token(), seen + 10) {
        Ok(()) => println!("  first:  goes on, adds 10 to what it had read, and writes {}", seen + 10),
        Err(refused) => {
            println!("  first:  goes on and wants to write {}, but: {refused}", seen + 10);
            again(client, register).await?;
        }
    }
    match register.read()? {
        130 => println!("  The balance is 130, as it should be."),
        balance => println!("  The balance is {balance}: an update was lost."),
    }
    Ok(())
}

/// What to do after a refusal: take the lock again, and start from what is there now.
async fn again(client: &LockClient, register: &impl Register) -> Result<(), Failure> {
    let guard = client.lock(ACCOUNT).await?;
    let balance = register.read()? + 10;
    register.write(guard.token(), balance)?;
    println!("  first:  starts over with token {}, and writes {balance}", guard.token());
    guard.unlock().await?;
    Ok(())
}

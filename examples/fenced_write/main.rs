//! Two programs add to a balance, each under the lock. The first stalls for longer than its ttl, as a
//! program does when its machine is suspended, and then writes as if nothing had happened. A plain file
//! loses the second one's update. A fenced file refuses the late write, and so does a database: that of
//! `DISTLOCK_URL` if it is PostgreSQL, MySQL or MariaDB, and otherwise an SQLite file.
#![expect(clippy::print_stdout, reason = "the example's output")]

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use distlock::{FencedFile, FencingToken, LockClient, LockOptions, RenewPolicy};
use distlock_examples::lock_url;

type Failure = Box<dyn Error + Send + Sync>;

const ACCOUNT: &str = "account/7";

/// Where the balance is.
#[async_trait]
trait Register: Sync {
    async fn read(&self) -> Result<u64, Failure>;
    /// Fails with an error that says `is_lost` if somebody with a higher token was there before.
    async fn write(&self, token: FencingToken, balance: u64) -> Result<(), Failure>;
}

/// Writes whatever it is told to.
struct Plain(PathBuf);

#[async_trait]
impl Register for Plain {
    async fn read(&self) -> Result<u64, Failure> {
        Ok(fs::read_to_string(&self.0)?.parse()?)
    }

    async fn write(&self, _: FencingToken, balance: u64) -> Result<(), Failure> {
        Ok(fs::write(&self.0, balance.to_string())?)
    }
}

#[async_trait]
impl Register for FencedFile {
    async fn read(&self) -> Result<u64, Failure> {
        Ok(fs::read_to_string(self.path())?.parse()?)
    }

    async fn write(&self, token: FencingToken, balance: u64) -> Result<(), Failure> {
        Ok(Self::write(self, token, balance.to_string().as_bytes())?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let client = distlock::connect(&lock_url()).await?;
    let folder = tempfile::tempdir()?;

    println!("A plain file:");
    fs::write(folder.path().join("plain"), "100")?;
    two_deposits(&client, &Plain(folder.path().join("plain"))).await?;

    println!("A fenced file:");
    fs::write(folder.path().join("fenced"), "100")?;
    two_deposits(&client, &FencedFile::new(folder.path().join("fenced"), ACCOUNT)?).await?;

    if let Some(database) = database(&lock_url(), folder.path()).await? {
        println!("A fenced database:");
        two_deposits(&client, &*database).await?;
    }
    Ok(())
}

/// A balance in the database that `url` names, or in one in `folder`.
async fn database(url: &str, folder: &Path) -> Result<Option<Box<dyn Register>>, Failure> {
    // Without the options of the lock.
    let place = url.split('?').next().unwrap_or_default();
    match place.split(':').next() {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(Some(Box::new(postgres::Balance::open(place).await?))),
        #[cfg(feature = "mysql")]
        Some("mysql" | "mariadb") => Ok(Some(Box::new(mysql::Balance::open(place).await?))),
        #[cfg(feature = "sqlite")]
        _ => Ok(Some(Box::new(sqlite::Balance::open(&folder.join("data.db")).await?))),
        #[cfg(not(feature = "sqlite"))]
        _ => {
            println!("(No database is built in that could be shown with {}.)", folder.display());
            Ok(None)
        }
    }
}

/// Adds 10 and 20 to a balance of 100, with a stall in between.
async fn two_deposits(client: &LockClient, register: &dyn Register) -> Result<(), Failure> {
    // Nothing renews this lock, just as nothing would while the whole machine stands still.
    let stalling = LockOptions::default().ttl(Duration::from_millis(300)).renew(RenewPolicy::Manual);
    let first = client.lock_with(ACCOUNT, &stalling).await?;
    let seen = register.read().await?;
    println!("  first:  holds token {}, reads {seen}, and stalls for longer than its ttl", first.token());
    first.lost().await;

    let second = client.lock(ACCOUNT).await?;
    let balance = register.read().await? + 20;
    register.write(second.token(), balance).await?;
    println!("  second: holds token {}, adds 20, and writes {balance}", second.token());
    second.unlock().await?;

    match register.write(first.token(), seen + 10).await {
        Ok(()) => println!("  first:  goes on, adds 10 to what it had read, and writes {}", seen + 10),
        Err(refused) if is_lost(&refused) => {
            println!("  first:  goes on and wants to write {}, but: {refused}", seen + 10);
            again(client, register).await?;
        }
        Err(error) => return Err(error),
    }
    match register.read().await? {
        130 => println!("  The balance is 130, as it should be."),
        balance => println!("  The balance is {balance}: an update was lost."),
    }
    Ok(())
}

fn is_lost(error: &Failure) -> bool {
    error.downcast_ref::<distlock::Error>().is_some_and(distlock::Error::is_lost)
}

/// What to do after a refusal: take the lock again, and start from what is there now.
async fn again(client: &LockClient, register: &dyn Register) -> Result<(), Failure> {
    let guard = client.lock(ACCOUNT).await?;
    let balance = register.read().await? + 10;
    register.write(guard.token(), balance).await?;
    println!("  first:  starts over with token {}, and writes {balance}", guard.token());
    guard.unlock().await?;
    Ok(())
}

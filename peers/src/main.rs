//! Contends for locks through other libraries, as it is told line by line. See the README.

mod contend;
#[cfg(feature = "distributed-lock")]
mod distributed_lock;
#[cfg(feature = "etcd")]
mod etcd;
mod peer;
#[cfg(feature = "rslock")]
mod rslock;
#[cfg(feature = "sqlx")]
mod sqlx_advisory;

use std::io::{BufRead, Write};
use std::process::ExitCode;

use distlock_bench::compare::{PeerAnswer, PeerOrder, PeerRound};
use tokio::runtime::Runtime;

use crate::peer::{Failure, Peer};

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("distlock-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Failure> {
    let runtime = Runtime::new()?;
    say(&there())?;
    for line in std::io::stdin().lock().lines() {
        let order: PeerOrder = serde_json::from_str(&line?)?;
        let round = runtime.block_on(round(&order));
        say(&round
            .unwrap_or_else(|error| PeerRound { error: Some(error.to_string()), ..PeerRound::default() }))?;
    }
    Ok(())
}

fn say<T: serde::Serialize>(what: &T) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    Ok(out.flush()?)
}

/// Who is in this build.
fn there() -> Vec<PeerAnswer> {
    let mut there = Vec::new();
    #[cfg(feature = "rslock")]
    there.push(answer::<rslock::Rslock>());
    #[cfg(feature = "distributed-lock")]
    there.push(answer::<distributed_lock::DistributedLock>());
    #[cfg(feature = "sqlx")]
    there.push(answer::<sqlx_advisory::AdvisoryLock>());
    #[cfg(feature = "etcd")]
    there.push(answer::<etcd::LockService>());
    there
}

fn answer<P: Peer>() -> PeerAnswer {
    PeerAnswer {
        name: P::NAME.into(),
        scheme: P::SCHEME.into(),
        also_on: P::ALSO_ON.iter().map(|scheme| (*scheme).to_owned()).collect(),
        differs: P::DIFFERS.into(),
        faster_alone: P::FASTER_ALONE.into(),
        faster_contended: P::FASTER_CONTENDED.into(),
    }
}

async fn round(order: &PeerOrder) -> Result<PeerRound, Failure> {
    match order.name.as_str() {
        #[cfg(feature = "rslock")]
        rslock::Rslock::NAME => contend::round::<rslock::Rslock>(order).await,
        #[cfg(feature = "distributed-lock")]
        distributed_lock::DistributedLock::NAME => {
            contend::round::<distributed_lock::DistributedLock>(order).await
        }
        #[cfg(feature = "sqlx")]
        sqlx_advisory::AdvisoryLock::NAME => contend::round::<sqlx_advisory::AdvisoryLock>(order).await,
        #[cfg(feature = "etcd")]
        etcd::LockService::NAME => contend::round::<etcd::LockService>(order).await,
        other => Err(format!("there is no peer `{other}` in this build").into()),
    }
}

//! One run from a URL to its figures.

use std::sync::Arc;

use distlock::{Error, ErrorKind, LockClient, Registry, Result, StoreUrl};

use crate::figures::Figures;
#[cfg(feature = "redis")]
use crate::floor::RedisFloor;
#[cfg(feature = "sqlite")]
use crate::floor::SqliteFloor;
use crate::floor::{Bare, Floor, MemoryFloor};
use crate::options::{BenchOptions, Params};
use crate::pairs::Pairs;
use crate::rounds::{Measured, measure, measure_beside};
use crate::scenario::Scenario;
use crate::{held, machine, processes};

/// Connects to the store at `url` and measures it.
///
/// Every run works on keys of its own below `bench/`. It needs a tokio runtime; with a single worker
/// thread, contenders of one process wait for each other's work.
///
/// # Errors
/// `InvalidOptions` before any I/O; `Unsupported` for what the store can't do; and the first error
/// that any contender gets from the store, which ends the run.
///
/// # Cancel safety
/// May be dropped at any point: contenders stop, their processes are killed, and locks are released
/// in the background while the runtime lives, else by their ttl.
pub async fn run(registry: &Registry, url: &str, options: &BenchOptions) -> Result<Figures> {
    let params = options.params()?;
    let prefix = format!("bench/{:016x}", fastrand::u64(..));
    let client = registry.connect(url).await?;
    let figures = match options.scenario {
        Scenario::Held => held::run(&client, params, &prefix, options.heap).await,
        Scenario::Processes => processes::run(client.info(), url, params, &prefix).await,
        _ => in_process(&client, url, params, &prefix, options).await,
    };
    client.shutdown(std::time::Duration::from_secs(10)).await;
    figures
}

async fn in_process(
    client: &LockClient,
    url: &str,
    params: Params,
    prefix: &str,
    options: &BenchOptions,
) -> Result<Figures> {
    let scenario = options.scenario;
    let pairs = Arc::new(Pairs::new(client, params, scenario.one_key(), prefix)?);
    let measured = if options.floor {
        with_floor(client, url, &pairs, &params, scenario).await?
    } else {
        measure(client, &pairs, &params).await?
    };
    let mut figures = Figures::of_pairs(client.info(), scenario, params, &measured);
    figures.violations = pairs.violations();
    figures.order(client.info(), pairs.inversions());
    figures.rss_kib = machine::rss_kib();
    Ok(figures)
}

async fn with_floor(
    client: &LockClient,
    url: &str,
    pairs: &Arc<Pairs>,
    params: &Params,
    scenario: Scenario,
) -> Result<Measured> {
    let url = StoreUrl::parse(url)?;
    match url.scheme.as_str() {
        "memory" => beside::<MemoryFloor>(client, &url, pairs, params, scenario).await,
        #[cfg(feature = "redis")]
        "redis" | "valkey" => beside::<RedisFloor>(client, &url, pairs, params, scenario).await,
        #[cfg(feature = "sqlite")]
        "sqlite" => beside::<SqliteFloor>(client, &url, pairs, params, scenario).await,
        other => Err(Error::new(
            ErrorKind::Unsupported,
            format!("the bare statements of `{other}:` are not known; measure without the floor"),
        )),
    }
}

async fn beside<F: Floor>(
    client: &LockClient,
    url: &StoreUrl,
    pairs: &Arc<Pairs>,
    params: &Params,
    scenario: Scenario,
) -> Result<Measured> {
    let floor = Bare::<F>::open(url, *params, scenario.one_key()).await?;
    measure_beside(client, pairs, &floor, params).await
}

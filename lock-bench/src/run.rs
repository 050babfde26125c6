//! One run from a URL to its figures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{Error, ErrorKind, LockClient, Registry, Result, StoreUrl};

use crate::figures::Figures;
#[cfg(feature = "mysql")]
use crate::floor::MySqlFloor;
#[cfg(feature = "postgres")]
use crate::floor::PostgresFloor;
#[cfg(feature = "sqlite")]
use crate::floor::SqliteFloor;
#[cfg(feature = "zk")]
use crate::floor::ZkFloor;
use crate::floor::{Bare, BareTally, Beside, Floor, MemoryFloor};
#[cfg(feature = "etcd")]
use crate::floor::{EtcdFloor, EtcdLockService};
#[cfg(feature = "redis")]
use crate::floor::{RedisFloor, RedlockFloor};
use crate::options::{BenchOptions, Params};
use crate::pairs::Pairs;
use crate::rounds::{Others, measure, warm_up};
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
    client.shutdown(Duration::from_secs(10)).await;
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
    let parsed = StoreUrl::parse(url)?;
    let mut others = Others::default();
    if options.floor {
        others.floor = Some(floor_of(&parsed, params, scenario).await?);
    }
    if options.peer {
        others.peer = Some(peer_of(&parsed, params).await?);
    }
    let measured = measure(client, &pairs, &params, &others).await?;
    let mut figures = Figures::of_pairs(client.info(), scenario, params, &measured);
    figures.violations = pairs.violations();
    figures.order(client.info(), pairs.inversions());
    figures.rss_kib = machine::rss_kib();
    Ok(figures)
}

/// The bare statements of one free lock alone, for `length` after a warm-up; and how long that took.
pub(crate) async fn floor_alone(url: &str, length: Duration) -> Result<(BareTally, Duration)> {
    let scenario = Scenario::Uncontended;
    let params = BenchOptions::new(scenario).duration(length.max(Duration::from_millis(100))).params()?;
    let floor = floor_of(&StoreUrl::parse(url)?, params, scenario).await?;
    floor.round(warm_up(&params)).await?;
    floor.take();
    let began = Instant::now();
    floor.round(length).await?;
    Ok((floor.take(), began.elapsed()))
}

/// Whether the store's bare statements are known.
pub(crate) fn floor_is_known(url: &StoreUrl) -> bool {
    let known: [(&[&str], bool); 7] = [
        (&["memory"], true),
        (&["etcd"], cfg!(feature = "etcd")),
        (&["redis", "valkey", "redlock"], cfg!(feature = "redis")),
        (&["postgres", "postgresql"], cfg!(feature = "postgres")),
        (&["mysql", "mariadb"], cfg!(feature = "mysql")),
        (&["zk"], cfg!(feature = "zk")),
        (&["sqlite"], cfg!(feature = "sqlite")),
    ];
    known.iter().any(|(schemes, is_built)| *is_built && schemes.contains(&url.scheme.as_str()))
}

/// The bare statements of the store.
async fn floor_of(url: &StoreUrl, params: Params, scenario: Scenario) -> Result<Box<dyn Beside>> {
    match url.scheme.as_str() {
        "memory" => floor::<MemoryFloor>(url, params, scenario).await,
        #[cfg(feature = "etcd")]
        "etcd" => floor::<EtcdFloor>(url, params, scenario).await,
        #[cfg(feature = "redis")]
        "redis" | "valkey" => floor::<RedisFloor>(url, params, scenario).await,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => floor::<PostgresFloor>(url, params, scenario).await,
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => floor::<MySqlFloor>(url, params, scenario).await,
        #[cfg(feature = "zk")]
        "zk" => floor::<ZkFloor>(url, params, scenario).await,
        #[cfg(feature = "redis")]
        "redlock" => floor::<RedlockFloor>(url, params, scenario).await,
        #[cfg(feature = "sqlite")]
        "sqlite" => floor::<SqliteFloor>(url, params, scenario).await,
        other => Err(Error::new(
            ErrorKind::Unsupported,
            format!("the bare statements of `{other}:` are not known; measure without the floor"),
        )),
    }
}

async fn floor<F: Floor>(url: &StoreUrl, params: Params, scenario: Scenario) -> Result<Box<dyn Beside>> {
    Ok(Box::new(Bare::<F>::open(url, params, scenario.one_key()).await?))
}

/// The store's own locks, for which contenders queue in the store.
#[cfg_attr(not(feature = "etcd"), expect(unused_variables, reason = "etcd alone has such locks"))]
async fn peer_of(url: &StoreUrl, params: Params) -> Result<Box<dyn Beside>> {
    #[cfg(feature = "etcd")]
    if url.scheme == "etcd" {
        // Each contender as if it had a key of its own, since none queues here.
        return Ok(Box::new(Bare::<EtcdLockService>::open(url, params, false).await?));
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("`{}:` has no locks of its own to compare with; measure without the peer", url.scheme),
    ))
}

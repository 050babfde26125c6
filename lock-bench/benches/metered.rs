//! What metrics cost on a store: the server that `LOCK_TEST_REDIS_URL` names, once as it is and once with the feature `metrics`,
//! whose recorder then takes in everything.
//! `cargo bench -p distlock-bench --features redis[,metrics] --bench metered`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "this program's output; it fails by panicking"
)]

use std::time::Duration;

use distlock_bench::{BenchOptions, Scenario, run};

const ROUNDS: usize = 5;
const LENGTH: Duration = Duration::from_secs(4);

fn main() {
    let Ok(url) = std::env::var("LOCK_TEST_REDIS_URL") else {
        println!("LOCK_TEST_REDIS_URL is not set; run it below `dev/services.sh run redis --`");
        return;
    };
    #[cfg(feature = "metrics")]
    let recorded = metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let options = BenchOptions::new(Scenario::Uncontended).duration(LENGTH).floor(true);
    for _ in 0..ROUNDS {
        let figures = runtime.block_on(run(&distlock::registry(), &url, &options)).unwrap();
        println!(
            "p50 {:.1} µs, {:.3} of the floor's; CPU of a pair {:.1} µs, of a bare one {:.1} µs",
            figures.p50_us,
            figures.ratio.unwrap(),
            figures.cpu_us_per_op,
            figures.floor_cpu_us_per_op.unwrap()
        );
    }
    #[cfg(feature = "metrics")]
    println!("{} lines of metrics", recorded.render().lines().count());
}

//! What metrics cost on a store: a client whose metrics a Prometheus recorder takes in, and one without a recorder, in turns,
//! on the server that `LOCK_TEST_REDIS_URL` names. Without one, each count still asks for it; the feature off costs less by that.
//! `cargo bench -p distlock-bench --features redis,metrics --bench metered`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "this program's output; it fails by panicking"
)]

use std::time::Duration;

use distlock_bench::{BenchOptions, Scenario, run};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use tokio::runtime::{Builder, Runtime};

const TURNS: usize = 40;
const LENGTH: Duration = Duration::from_millis(500);

fn main() {
    let Ok(url) = std::env::var("LOCK_TEST_REDIS_URL") else {
        println!("LOCK_TEST_REDIS_URL is not set; run it below `dev/services.sh run redis --`");
        return;
    };
    // For as long as the process runs: the threads of a runtime outlive what borrows it here.
    let recorder: &'static PrometheusRecorder =
        Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
    let handle = recorder.handle();
    let (metered, bare) = (runtime(Some(recorder)), runtime(None));
    let options = BenchOptions::new(Scenario::Uncontended).duration(LENGTH);
    let turn = |runtime: &Runtime| {
        let figures = runtime.block_on(async {
            // On a thread of the runtime, which has the recorder or has not.
            let (url, options) = (url.clone(), options.clone());
            tokio::spawn(async move { run(&distlock::registry(), &url, &options).await }).await.unwrap()
        });
        figures.unwrap().p50_us
    };
    let mut ratios = Vec::new();
    for at in 0..TURNS {
        // What comes first in a turn changes, so that a machine that slows down speaks against neither.
        let (with, without) = if at % 2 == 0 {
            let with = turn(&metered);
            (with, turn(&bare))
        } else {
            let without = turn(&bare);
            (turn(&metered), without)
        };
        // As exporters do every few seconds.
        handle.run_upkeep();
        ratios.push(with / without);
    }
    ratios.sort_by(f64::total_cmp);
    let [least, low, middle, high, most] =
        [0, TURNS / 4, TURNS / 2, TURNS * 3 / 4, TURNS - 1].map(|at| ratios[at]);
    println!("p50 with metrics, as a multiple of that without, of {TURNS} turns: {middle:.3}");
    println!("half of them from {low:.3} to {high:.3}, all from {least:.3} to {most:.3}");
    println!("{} lines of metrics", handle.render().lines().count());
}

fn runtime(recorder: Option<&'static PrometheusRecorder>) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    if let Some(recorder) = recorder {
        builder.on_thread_start(move || std::mem::forget(metrics::set_default_local_recorder(recorder)));
    }
    builder.build().unwrap()
}

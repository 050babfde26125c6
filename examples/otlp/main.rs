//! Every operation of the store as a span, and the metrics, sent by OTLP over HTTP to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT`
//! names, `http://localhost:4318` if nothing is said. The operations of a job are children of the job's own span.
#![expect(clippy::print_stdout, reason = "the example's output")]

mod bridge;
mod telemetry;

use std::error::Error;
use std::time::Duration;

use distlock::{LockClient, LockOptions};
use distlock_examples::lock_url;
use telemetry::Telemetry;
use tracing::{Instrument, info_span};

/// Not in the runtime: at its end, telemetry is sent by a call that blocks.
fn main() -> Result<(), Box<dyn Error>> {
    // Before the first client: gauges count ups and downs.
    let telemetry = Telemetry::start("distlock-example")?;
    let done = tokio::runtime::Runtime::new()?.block_on(work());
    telemetry.stop()?;
    println!("Sent.");
    Ok(done?)
}

async fn work() -> Result<(), distlock::Error> {
    let client = distlock::connect(&lock_url()).await?;
    for report in ["sales", "stock"] {
        make(&client, report).instrument(info_span!("make_report", report)).await?;
    }
    let left = client.shutdown(Duration::from_secs(5)).await;
    println!("Stopped; {} locks are left to their ttl.", left.claims.len());
    Ok(())
}

async fn make(client: &LockClient, report: &str) -> Result<(), distlock::Error> {
    let options = LockOptions::default().ttl(Duration::from_secs(10));
    let guard = client.lock_with(format!("report/{report}"), &options).await?;
    println!("Making {report} with token {}.", guard.token());
    guard.unlock().await?;
    Ok(())
}

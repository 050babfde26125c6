//! A web service of which any number of instances may run. `POST /reports/NAME` makes a report, one at a time for each name, in all
//! instances together; who asks for one that is being made is told so, and by whom. `GET /healthz` says whether
//! this instance can take locks now, and `GET /metrics` serves Prometheus. Ctrl-C or SIGTERM: no new requests, those under
//! way are finished, every lock is given back.
//! `LISTEN` says where, `127.0.0.1:8080` if nothing is said.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use distlock::{ErrorKind, LockClient, LockOptions, WaitPolicy};
use distlock_examples::{StopSignal, data_folder, shared_url};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;

/// Upper bounds of the buckets of every time, in seconds.
const BUCKETS: [f64; 8] = [0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0];

type Answer = (StatusCode, String);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut stop = StopSignal::listen()?;
    // Before the client is made: gauges count ups and downs.
    let recorded = PrometheusBuilder::new().set_buckets(&BUCKETS)?.install_recorder()?;
    distlock::describe_metrics();
    let client = distlock::connect(&shared_url(&data_folder()?)).await?;
    let routes = Router::new()
        .route("/reports/{name}", post(make_report))
        .route("/healthz", get(health))
        .route("/metrics", get(async move || metrics(&recorded)))
        .with_state(client.clone());
    let listen = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".into());
    let listener = TcpListener::bind(&listen).await?;
    println!("Listening on http://{}.", listener.local_addr()?);
    axum::serve(listener, routes)
        .with_graceful_shutdown(async move {
            stop.received().await;
            println!("Stopping: requests under way are finished.");
        })
        .await?;
    // After the last request: what is left now are releases in the background.
    let left = client.shutdown(Duration::from_secs(5)).await;
    println!("Stopped; {} locks are left to their ttl.", left.claims.len());
    Ok(())
}

async fn make_report(State(client): State<LockClient>, Path(name): Path<String>) -> Answer {
    // An answer now is worth more to the caller than its turn later.
    let options = LockOptions::default().ttl(Duration::from_secs(10)).wait(WaitPolicy::No);
    let report = async {
        let guard = client.lock_with(format!("report/{name}"), &options).await?;
        let token = guard.token();
        // Dropped when the lock is lost. When the caller hangs up all of this is dropped, and the lock given back.
        guard.run(write_report()).await?;
        guard.unlock().await?;
        Ok::<_, distlock::Error>(token)
    };
    match report.await {
        Ok(token) => (StatusCode::OK, format!("report {name} is made, with token {token}\n")),
        Err(error) => refusal(&error),
    }
}

async fn health(State(client): State<LockClient>) -> Answer {
    // Whatever the reason, a load balancer had better ask another instance.
    match client.health().await {
        Ok(_) => (StatusCode::OK, "ok\n".into()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

/// Rendering also puts what was recorded into its buckets. A service that may go unasked for long calls
/// [`PrometheusHandle::run_upkeep`] every few seconds as well, else the times pile up.
fn metrics(recorded: &PrometheusHandle) -> impl IntoResponse + use<> {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], recorded.render())
}

/// What an error means to the caller, who may try again after a 409 or a 503.
fn refusal(error: &distlock::Error) -> Answer {
    let status = match error.kind() {
        ErrorKind::WaitTimeout => StatusCode::CONFLICT,
        ErrorKind::InvalidKey => StatusCode::BAD_REQUEST,
        _ if error.is_retryable() || error.is_lost() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, format!("{error}\n"))
}

async fn write_report() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

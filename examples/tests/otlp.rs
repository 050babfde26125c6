//! Runs the example that exports telemetry against a collector, and reads what that received.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::trace::v1::Span;
use program::{example, said};
use prost::Message;
use tokio::net::TcpListener;

/// The requests that came.
#[derive(Default)]
struct Received {
    traces: Mutex<Vec<ExportTraceServiceRequest>>,
    metrics: Mutex<Vec<ExportMetricsServiceRequest>>,
}

/// A collector that keeps what it is sent.
fn collector(received: &Arc<Received>) -> Router {
    let (traces, metrics) = (Arc::clone(received), Arc::clone(received));
    Router::new()
        .route(
            "/v1/traces",
            post(async move |body: Bytes| {
                traces.traces.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
            }),
        )
        .route(
            "/v1/metrics",
            post(async move |body: Bytes| {
                metrics.metrics.lock().unwrap().push(ExportMetricsServiceRequest::decode(body).unwrap());
            }),
        )
}

/// The text of a span's attribute.
fn text<'a>(span: &'a Span, name: &str) -> Option<&'a str> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_collector_gets_spans_and_metrics() {
    let received = Arc::new(Received::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut program = example("otlp");
    program.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"));
    let output = tokio::select! {
        ended = axum::serve(listener, collector(&received)).into_future() => panic!("the collector ended: {ended:?}"),
        output = tokio::task::spawn_blocking(move || program.output().unwrap()) => said(&output.unwrap()),
    };
    assert!(output.contains("Making stock with token") && output.ends_with("Sent.\n"), "{output}");

    let traces = received.traces.lock().unwrap();
    let resources: Vec<_> = traces.iter().flat_map(|request| &request.resource_spans).collect();
    let spans: Vec<&Span> =
        resources.iter().flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans).collect();
    let job = spans.iter().find(|span| text(span, "report") == Some("stock")).unwrap();
    let of_job = |operation: &str| {
        let mut found = spans.iter().filter(|span| {
            text(span, "operation") == Some(operation) && text(span, "key") == Some("report/stock")
        });
        found.next().unwrap_or_else(|| panic!("no span of {operation} in {spans:#?}"))
    };
    let taken = of_job("try_lock");
    assert_eq!(taken.parent_span_id, job.span_id, "{taken:#?}");
    assert_eq!((text(taken, "outcome"), text(taken, "backend")), (Some("acquired"), Some("memory")));
    assert_eq!(text(of_job("unlock"), "outcome"), Some("released"));

    let metrics = received.metrics.lock().unwrap();
    let scopes =
        metrics.iter().flat_map(|request| &request.resource_metrics).flat_map(|one| &one.scope_metrics);
    let last = |name: &str| {
        let mut all = scopes.clone().flat_map(|scope| &scope.metrics);
        let metric = all.rfind(|metric| metric.name == name);
        metric.unwrap_or_else(|| panic!("no {name} in {metrics:#?}"))
    };
    let acquires = last("distlock_acquires_total");
    assert!(acquires.description.starts_with("Calls of"), "{acquires:#?}");
    assert_eq!(sum(acquires.data.as_ref().unwrap()), 2.0);
    assert_eq!(sum(last("distlock_held_locks").data.as_ref().unwrap()), 0.0, "both were given back");
    let wait = last("distlock_wait_seconds");
    assert_eq!(wait.unit, "s");
    let Some(Data::Histogram(histogram)) = &wait.data else { panic!("{wait:#?}") };
    assert_eq!(histogram.data_points.iter().map(|point| point.count).sum::<u64>(), 2);
}

/// The sum over all series.
fn sum(data: &Data) -> f64 {
    let Data::Sum(sum) = data else { panic!("no sum: {data:#?}") };
    let number = |value: &number_data_point::Value| match value {
        number_data_point::Value::AsDouble(number) => *number,
        number_data_point::Value::AsInt(number) => f64::from(i32::try_from(*number).unwrap()),
    };
    sum.data_points.iter().filter_map(|point| point.value.as_ref()).map(number).sum()
}

//! What goes to the collector, and when.

use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::bridge::Bridge;

/// The two exporters. Each collects for a while and sends from a thread of its own.
pub(crate) struct Telemetry {
    spans: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

impl Telemetry {
    /// Takes in, from now on, the spans and metrics of this whole process, as those of `service`.
    pub(crate) fn start(service: &'static str) -> Result<Self, ExporterBuildError> {
        let resource = Resource::builder().with_service_name(service).build();
        let spans = SdkTracerProvider::builder()
            .with_batch_exporter(SpanExporter::builder().with_http().build()?)
            .with_resource(resource.clone())
            .build();
        let metrics = SdkMeterProvider::builder()
            .with_periodic_exporter(MetricExporter::builder().with_http().build()?)
            .with_resource(resource)
            .build();
        // The store's operations are spans at debug level. All else is left out, above all what the exporters say while they send.
        let wanted = Targets::new()
            .with_target("distlock", Level::DEBUG)
            .with_target(env!("CARGO_CRATE_NAME"), Level::INFO);
        let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("distlock"));
        // Both fail only where somebody has installed one before.
        let _ = tracing_subscriber::registry().with(wanted).with(layer).try_init();
        let _ = metrics::set_global_recorder(Bridge::new(metrics.meter("distlock")));
        distlock::describe_metrics();
        Ok(Self { spans, metrics })
    }

    /// Sends what is left.
    pub(crate) fn stop(self) -> Result<(), OTelSdkError> {
        self.spans.shutdown()?;
        self.metrics.shutdown()
    }
}

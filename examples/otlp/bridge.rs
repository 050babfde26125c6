//! From the facade that distlock records through to OpenTelemetry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{self as otel, Meter};

/// A recorder that passes on what is recorded, with meanings and units. A gauge must only be raised and lowered, as distlock's are: then
/// it is an up-down counter, which collectors may add up over processes.
pub(crate) struct Bridge {
    meter: Meter,
    described: Mutex<HashMap<String, (Option<Unit>, SharedString)>>,
}

impl Bridge {
    pub(crate) fn new(meter: Meter) -> Self {
        Self { meter, described: Mutex::default() }
    }

    fn describe(&self, key: &KeyName, unit: Option<Unit>, meaning: SharedString) {
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        described.insert(key.as_str().to_owned(), (unit, meaning));
    }

    fn described(&self, key: &Key) -> (&'static str, String) {
        let described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let (unit, meaning) =
            described.get(key.name()).cloned().unwrap_or((None, SharedString::const_str("")));
        (unit.map_or("", |unit| unit.as_canonical_label()), meaning.into_owned())
    }
}

impl Recorder for Bridge {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, meaning: SharedString) {
        self.describe(&key, unit, meaning);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, meaning: SharedString) {
        self.describe(&key, unit, meaning);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, meaning: SharedString) {
        self.describe(&key, unit, meaning);
    }

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        let (unit, meaning) = self.described(key);
        let name = key.name().to_owned();
        let instrument = self.meter.u64_counter(name).with_unit(unit).with_description(meaning).build();
        Counter::from_arc(Arc::new(Labelled { instrument, labels: labels(key) }))
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        let (unit, meaning) = self.described(key);
        let name = key.name().to_owned();
        let instrument =
            self.meter.f64_up_down_counter(name).with_unit(unit).with_description(meaning).build();
        Gauge::from_arc(Arc::new(Labelled { instrument, labels: labels(key) }))
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        let (unit, meaning) = self.described(key);
        let name = key.name().to_owned();
        let instrument = self.meter.f64_histogram(name).with_unit(unit).with_description(meaning).build();
        Histogram::from_arc(Arc::new(Labelled { instrument, labels: labels(key) }))
    }
}

fn labels(key: &Key) -> Vec<KeyValue> {
    key.labels().map(|label| KeyValue::new(label.key().to_owned(), label.value().to_owned())).collect()
}

/// An instrument with the labels of one series.
struct Labelled<I> {
    instrument: I,
    labels: Vec<KeyValue>,
}

impl CounterFn for Labelled<otel::Counter<u64>> {
    fn increment(&self, value: u64) {
        self.instrument.add(value, &self.labels);
    }

    /// OpenTelemetry's counters can't be set, and distlock sets none.
    fn absolute(&self, _value: u64) {}
}

impl GaugeFn for Labelled<otel::UpDownCounter<f64>> {
    fn increment(&self, value: f64) {
        self.instrument.add(value, &self.labels);
    }

    fn decrement(&self, value: f64) {
        self.instrument.add(-value, &self.labels);
    }

    /// Nor can these.
    fn set(&self, _value: f64) {}
}

impl HistogramFn for Labelled<otel::Histogram<f64>> {
    fn record(&self, value: f64) {
        self.instrument.record(value, &self.labels);
    }
}

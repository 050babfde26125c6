//! The series of a metric: looked up in the recorder once in a while, and not for each thing that is counted.

use std::fmt;
use std::ptr::from_ref;
use std::sync::{OnceLock, RwLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, with_recorder};
use rustix::time::{ClockId, clock_gettime};

use crate::metric::Metric;

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Tells one second from another; the clock that costs least.
#[cfg(target_os = "linux")]
const SECONDS: ClockId = ClockId::MonotonicCoarse;
#[cfg(not(target_os = "linux"))]
const SECONDS: ClockId = ClockId::Monotonic;

/// The series of one metric, up to `N` of which are kept. Those beyond are looked up each time.
pub(crate) struct Family<H, const N: usize> {
    metric: &'static Metric,
    kept: [OnceLock<Box<Series<H>>>; N],
}

impl<const N: usize> Family<Counter, N> {
    pub(crate) fn count(&self, values: &[&'static str], times: u64) {
        self.find(values, |counter| counter.increment(times));
    }
}

impl<const N: usize> Family<Gauge, N> {
    pub(crate) fn add(&self, values: &[&'static str], change: f64) {
        self.find(values, |gauge| gauge.increment(change));
    }
}

impl<const N: usize> Family<Histogram, N> {
    pub(crate) fn time(&self, values: &[&'static str], took: Duration) {
        self.find(values, |histogram| histogram.record(took));
    }
}

impl<H: Handle, const N: usize> Family<H, N> {
    pub(crate) const fn new(metric: &'static Metric) -> Self {
        Self { metric, kept: [const { OnceLock::new() }; N] }
    }

    fn find(&self, values: &[&'static str], record: impl FnOnce(&H)) {
        let make = || Box::new(Series::new(self.metric, values));
        let kept = self.kept.iter().map(|slot| &**slot.get_or_init(make)).find(|series| series.is(values));
        match kept {
            Some(series) => series.record(record),
            None => make().record(record),
        }
    }
}

impl<H, const N: usize> fmt::Debug for Family<H, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Family").field(&self.metric.name).finish()
    }
}

/// How many labels a metric has at most.
const LABELS: usize = 3;

/// One series: the values of its labels, in the order of [`Metric::labels`], and where a recorder keeps it. What is looked at
/// for each count stands close together: after a call to a store little of it is in the processor's caches.
#[repr(C)]
struct Series<H> {
    values: [&'static str; LABELS],
    found: RwLock<Option<Found<H>>>,
    key: Key,
}

/// A recorder's handle. It counts for a second only: a recorder that forgets what was idle for long would not hear of
/// what comes through an old one. It was used when it was made, so that it was not idle in that second.
struct Found<H> {
    recorder: usize,
    second: i64,
    handle: H,
}

impl<H: Handle> Series<H> {
    fn new(metric: &Metric, values: &[&'static str]) -> Self {
        debug_assert!(metric.labels.len() == values.len() && values.len() <= LABELS, "{}", metric.name);
        let labels = metric.labels.iter().zip(values);
        let labels: Vec<Label> = labels.map(|(name, value)| Label::from_static_parts(name, value)).collect();
        // Retained, so that recorders which keep it copy no labels.
        let key = Key::from_parts(metric.name, labels).to_retained();
        let mut all = [""; LABELS];
        all.iter_mut().zip(values).for_each(|(own, value)| *own = value);
        Self { values: all, key, found: RwLock::new(None) }
    }

    fn is(&self, values: &[&'static str]) -> bool {
        // The same value mostly stands in the same place, so that it need not be read. The last differs most often.
        let mut pairs = values.iter().zip(&self.values).rev();
        pairs.all(|(value, own)| std::ptr::eq(*value, *own) || value == own)
    }

    fn record(&self, record: impl FnOnce(&H)) {
        with_recorder(|recorder| match place(recorder) {
            Some(place) => self.record_at(place, recorder, record),
            None => record(&H::of(recorder, &self.key)),
        });
    }

    fn record_at(&self, place: usize, recorder: &dyn Recorder, record: impl FnOnce(&H)) {
        let second = clock_gettime(SECONDS).tv_sec;
        // Nobody waits here: who comes while another looks the series up does the same.
        if let Ok(found) = self.found.try_read()
            && let Some(found) = &*found
            && (found.recorder, found.second) == (place, second)
        {
            return record(&found.handle);
        }
        let handle = H::of(recorder, &self.key);
        record(&handle);
        if let Ok(mut found) = self.found.try_write() {
            *found = Some(Found { recorder: place, second, handle });
        }
    }
}

/// Where a recorder is, which tells it from others that are there; a local one that comes where another was is taken for
/// it until the second is over. One that takes up no room has no place of its own; that which stands for none is such a one.
fn place(recorder: &dyn Recorder) -> Option<usize> {
    (size_of_val(recorder) > 0).then(|| from_ref(recorder).addr())
}

/// What a recorder hands out for a series.
pub(crate) trait Handle {
    fn of(recorder: &dyn Recorder, key: &Key) -> Self;
}

impl Handle for Counter {
    fn of(recorder: &dyn Recorder, key: &Key) -> Self {
        recorder.register_counter(key, &METADATA)
    }
}

impl Handle for Gauge {
    fn of(recorder: &dyn Recorder, key: &Key) -> Self {
        recorder.register_gauge(key, &METADATA)
    }
}

impl Handle for Histogram {
    fn of(recorder: &dyn Recorder, key: &Key) -> Self {
        recorder.register_histogram(key, &METADATA)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use metrics::{KeyName, SharedString, Unit};
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;
    use crate::metric::LOSSES;

    /// What a recorder heard since it was asked last, as values of labels and counts.
    fn heard(recorder: &DebuggingRecorder) -> Vec<(Vec<String>, u64)> {
        let heard = recorder.snapshotter().snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
            let labels = key.key().labels().map(|label| label.value().to_owned()).collect();
            let DebugValue::Counter(count) = value else { panic!("no counter: {value:?}") };
            (labels, count)
        });
        let mut heard: Vec<_> = heard.collect();
        heard.sort();
        heard
    }

    fn counted(reason: &str, times: u64) -> (Vec<String>, u64) {
        (vec!["memory".to_owned(), reason.to_owned()], times)
    }

    #[test]
    fn each_recorder_hears_what_is_counted_while_it_is_there() {
        let family = Family::<Counter, 1>::new(&LOSSES);
        let count = || family.count(&["memory", "stolen"], 1);
        let recorders = [DebuggingRecorder::new(), DebuggingRecorder::new()];
        for _ in 0..3 {
            count();
            for (recorder, times) in recorders.iter().zip([1, 2]) {
                (0..times).for_each(|_| metrics::with_local_recorder(recorder, count));
                assert_eq!(heard(recorder), [counted("stolen", times)], "and nothing of the others'");
            }
        }
    }

    /// Counts how often it is asked for a counter.
    struct Asked(AtomicI64);

    impl Recorder for Asked {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            self.0.fetch_add(1, Ordering::Relaxed);
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn a_recorder_is_asked_once_a_second() {
        let family = Family::<Counter, 2>::new(&LOSSES);
        let recorder = Asked(AtomicI64::new(0));
        let second = || clock_gettime(SECONDS).tv_sec;
        let count = || family.count(&["memory", "stolen"], 1);
        let began = second();
        metrics::with_local_recorder(&recorder, || {
            count();
            let first = second();
            while second() == first {
                count();
            }
            count();
        });
        let asked = recorder.0.into_inner();
        assert!((2..=second() - began + 1).contains(&asked), "asked {asked} times");
    }

    #[test]
    fn series_beyond_those_kept_are_counted_too() {
        let family = Family::<Counter, 1>::new(&LOSSES);
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || {
            for reason in ["stolen", "expired", "stolen", "expired"] {
                family.count(&["memory", reason], 1);
            }
        });
        assert_eq!(heard(&recorder), [counted("expired", 2), counted("stolen", 2)]);
    }
}

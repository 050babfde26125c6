//! The metrics are those that `METRICS` lists, and count what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use distlock_core::{LostReason, METRICS, MetricKind, Operation, WaitPolicy, describe_metrics};
use metrics_util::MetricKind as Kind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::rig::{ms, nine, rig, secs, settle, waiting_up_to};

/// What was recorded, by name and the values of its labels.
type Recorded = BTreeMap<(String, Vec<(String, String)>), (Kind, Option<String>, f64)>;

/// Kind, names of labels, and meaning.
type Described<'a> = (Kind, Vec<&'a str>, Option<&'a str>);

/// Records what a scenario does, in virtual time; histograms show how many times they hold.
fn record<F: Future<Output = ()>>(scenario: impl FnOnce() -> F) -> Recorded {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        describe_metrics();
        runtime.block_on(scenario());
        drop(runtime);
    });
    let lines = snapshotter.snapshot().into_vec().into_iter();
    lines
        .map(|(key, _, meaning, value)| {
            let labels = key.key().labels().map(|label| (label.key().to_owned(), label.value().to_owned()));
            let value = match value {
                DebugValue::Counter(count) => f64::from(u32::try_from(count).unwrap()),
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(times) => f64::from(u32::try_from(times.len()).unwrap()),
            };
            let name = (key.key().name().to_owned(), labels.collect());
            (name, (key.kind(), meaning.map(|meaning| meaning.to_string()), value))
        })
        .collect()
}

/// The value of a metric of the memory store, 0 if it was never recorded.
fn value(recorded: &Recorded, name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels = [("backend", "memory")].iter().chain(labels);
    let labels = labels.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    recorded.get(&(name.to_owned(), labels)).map_or(0.0, |(_, _, value)| *value)
}

/// Something of everything.
async fn everything() {
    let (store, _, client) = rig();
    client.lock("k").await.unwrap().unlock().await.unwrap();
    let guard = client.try_lock_with("k", &nine()).await.unwrap().unwrap();
    assert!(client.try_lock("k").await.unwrap().is_none());
    client.lock_with("k", &nine().wait(WaitPolicy::No)).await.unwrap_err();
    client.lock_with("k", &waiting_up_to(secs(4))).await.unwrap_err();
    let options = nine();
    let cancelled = client.lock_with("k", &options);
    assert!(tokio::time::timeout(secs(20), cancelled).await.is_err());
    drop(client.lock("dropped").await.unwrap());
    let _ = client.lock("leased").await.unwrap().into_lease();
    store.faults().silence(true);
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    store.faults().silence(false);
    store.faults().fail(Operation::TryLock, distlock_core::ErrorKind::PermissionDenied);
    client.try_lock("denied").await.unwrap_err();
    drop(guard);
    assert!(client.shutdown(secs(60)).await.is_empty());
}

#[test]
fn the_list_is_what_is_recorded() {
    let recorded = record(everything);
    let mut seen: BTreeMap<&str, BTreeSet<Described<'_>>> = BTreeMap::new();
    for ((name, labels), (kind, meaning, _)) in &recorded {
        let labels = labels.iter().map(|(name, _)| name.as_str()).collect();
        seen.entry(name).or_default().insert((*kind, labels, meaning.as_deref()));
        assert!(recorded.keys().all(|(_, labels)| labels.iter().all(|(_, value)| value != "k")));
    }
    let listed = METRICS.iter().map(|metric| {
        let kind = match metric.kind {
            MetricKind::Counter => Kind::Counter,
            MetricKind::Gauge => Kind::Gauge,
            _ => Kind::Histogram,
        };
        (metric.name, BTreeSet::from([(kind, metric.labels.to_vec(), Some(metric.meaning))]))
    });
    assert_eq!(seen, listed.collect());
}

#[test]
fn what_alarms_watch_for_is_there_before_it_happens() {
    let recorded = record(|| async {
        let _client = rig();
    });
    let count = |name: &str| recorded.keys().filter(|(found, _)| found == name).count();
    assert_eq!(count("distlock_losses_total"), 7);
    assert_eq!(count("distlock_renewals_total"), 2);
    assert_eq!((count("distlock_jeopardies_total"), count("distlock_self_waits_total")), (1, 1));
    assert!(recorded.values().all(|(_, _, value)| *value == 0.0));
}

#[test]
fn calls_are_counted_by_outcome_and_timed() {
    let recorded = record(everything);
    for (call, outcome, count) in [
        ("lock", "acquired", 3.0),
        ("lock", "busy", 1.0),
        ("lock", "timeout", 1.0),
        ("lock", "cancelled", 1.0),
        ("try-lock", "acquired", 1.0),
        ("try-lock", "busy", 1.0),
        ("try-lock", "error", 1.0),
    ] {
        let labels = [("call", call), ("outcome", outcome)];
        assert_eq!(value(&recorded, "distlock_acquires_total", &labels), count, "{call} {outcome}");
    }
    for (outcome, count) in [("acquired", 4.0), ("busy", 2.0), ("timeout", 1.0), ("cancelled", 1.0)] {
        assert_eq!(value(&recorded, "distlock_wait_seconds", &[("outcome", outcome)]), count, "{outcome}");
    }
}

#[test]
fn holds_are_counted_by_their_end() {
    let recorded = record(everything);
    for (end, count) in [("released", 2.0), ("detached", 1.0), ("lost", 1.0)] {
        assert_eq!(value(&recorded, "distlock_hold_seconds", &[("end", end)]), count, "{end}");
    }
    assert_eq!(value(&recorded, "distlock_losses_total", &[("reason", "unreachable")]), 1.0);
    assert_eq!(value(&recorded, "distlock_self_waits_total", &[]), 1.0);
    assert_eq!(value(&recorded, "distlock_jeopardies_total", &[]), 1.0);
    assert!(value(&recorded, "distlock_renewals_total", &[("outcome", "renewed")]) >= 1.0);
    assert!(value(&recorded, "distlock_renewals_total", &[("outcome", "failed")]) >= 1.0);
}

#[test]
fn gauges_come_back_to_nothing() {
    let recorded = record(everything);
    for gauge in ["distlock_held_locks", "distlock_waiting_calls", "distlock_pending_releases"] {
        assert_eq!(value(&recorded, gauge, &[]), 0.0, "{gauge}");
    }
}

#[test]
fn gauges_show_what_is_there() {
    let recorded = record(|| async {
        let ((store, _, client), options) = (rig(), nine());
        for key in ["a", "b", "c"] {
            std::mem::forget(client.lock_with(key, &options).await.unwrap());
        }
        drop(client.lock_with("d", &options).await.unwrap());
        settle().await;
        store.faults().silence(true);
        for key in ["e", "f"] {
            let cancelled = client.lock_with(key, &options);
            assert!(tokio::time::timeout(ms(100), cancelled).await.is_err());
        }
        let mut waiting = Box::pin(client.lock_with("g", &options));
        assert!(tokio::time::timeout(ms(100), &mut waiting).await.is_err());
        std::mem::forget(waiting);
        std::mem::forget(client);
    });
    assert_eq!(value(&recorded, "distlock_held_locks", &[]), 3.0);
    assert_eq!(value(&recorded, "distlock_waiting_calls", &[]), 1.0);
    assert_eq!(value(&recorded, "distlock_pending_releases", &[]), 2.0);
}

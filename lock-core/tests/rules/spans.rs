//! The span of every call, with its fields.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use distlock_core::layers::Traced;
use distlock_core::{
    Claim, Deadline, ErrorKind, FencingToken, Lease, LockBackend, LockClient, LockRequest, MemoryBackend,
    Namespace, Operation, Release, TryLock,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::rig::{key, nine, secs, until};

#[derive(Clone, Debug)]
struct Seen {
    id: u64,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let before = self.fields.insert(field.name(), format!("{value:?}"));
        assert_eq!(before, None, "{field} is noted once");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl Seen {
    /// The fields besides backend and operation, in the order of their names.
    fn text(&self) -> String {
        assert_eq!(self.fields["backend"], "memory");
        let others = self.fields.iter().filter(|(name, _)| !["backend", "operation"].contains(name));
        others.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }
}

/// All spans since it was installed.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Seen>>>);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = context.span(id).and_then(|span| span.parent()).map(|parent| parent.id().into_u64());
        let mut seen = Seen { id: id.into_u64(), parent, fields: BTreeMap::new() };
        attributes.record(&mut seen);
        self.0.lock().unwrap().push(seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if let Some(seen) = self.0.lock().unwrap().iter_mut().rfind(|seen| seen.id == id.into_u64()) {
            values.record(seen);
        }
    }
}

impl Spans {
    fn watch() -> (Self, DefaultGuard) {
        let spans = Self::default();
        let scope = tracing::subscriber::set_default(tracing_subscriber::registry().with(spans.clone()));
        (spans, scope)
    }

    fn of(&self, operation: Operation) -> Vec<Seen> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|seen| seen.fields["operation"] == operation.as_str()).cloned().collect()
    }

    /// The fields of an operation's spans.
    fn texts(&self, operation: Operation) -> Vec<String> {
        self.of(operation).iter().map(Seen::text).collect()
    }
}

fn traced() -> (Arc<MemoryBackend>, Traced<Arc<MemoryBackend>>) {
    let store = Arc::new(MemoryBackend::new());
    (Arc::clone(&store), Traced::new(store))
}

fn asking(name: &str) -> LockRequest {
    LockRequest::new(Claim::mint(key(name)), secs(9))
}

async fn lease(backend: &impl LockBackend, name: &str) -> Lease {
    match backend.try_lock(&asking(name)).await.unwrap() {
        TryLock::Acquired(lease) => lease,
        TryLock::Busy(busy) => panic!("{busy:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn taking_tells_key_owner_and_token() {
    let (_, backend) = traced();
    let (spans, _scope) = Spans::watch();
    let Lease { claim, token, .. } = lease(&backend, "a\n").await;
    let late = asking("a\n");
    assert!(matches!(backend.try_lock(&late).await.unwrap(), TryLock::Busy(_)));
    let acquired = format!("key=a%0A outcome=acquired owner={} token={token}", claim.owner);
    let busy = format!("key=a%0A outcome=busy owner={}", late.claim.owner);
    assert_eq!(spans.texts(Operation::TryLock), [acquired, busy]);
    let Lease { claim, token, .. } = backend.lock(&asking("b"), Deadline::NEVER).await.unwrap();
    let acquired = format!("key=b outcome=acquired owner={} token={token}", claim.owner);
    assert_eq!(spans.texts(Operation::Lock), [acquired]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_tells_the_token_whatever_the_outcome() {
    let (store, backend) = traced();
    let held = lease(&backend, "k").await;
    let (spans, _scope) = Spans::watch();
    backend.renew(&held, secs(9)).await.unwrap();
    store.faults().fail(Operation::Renew, ErrorKind::Unavailable);
    backend.renew(&held, secs(9)).await.unwrap_err();
    store.expire_now(&key("k"));
    backend.renew(&held, secs(9)).await.unwrap();
    let wanted = ["renewed", "error", "expired"]
        .map(|outcome| format!("key=k outcome={outcome} owner={} token={}", held.claim.owner, held.token));
    assert_eq!(spans.texts(Operation::Renew), wanted);
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_a_span_for_each_lease_inside() {
    let (store, backend) = traced();
    let leases = [lease(&backend, "a").await, lease(&backend, "b").await];
    let of_leases = |outcomes: [&str; 2]| {
        let each = |(lease, outcome): (&Lease, &str)| {
            let Claim { key, owner, .. } = &lease.claim;
            format!("key={key} outcome={outcome} owner={owner} token={}", lease.token)
        };
        leases.iter().zip(outcomes).map(each).collect::<Vec<_>>()
    };
    for (expire, together, each) in
        [(None, "renewed", ["renewed"; 2]), (Some("b"), "mixed", ["renewed", "expired"])]
    {
        if let Some(name) = expire {
            store.expire_now(&key(name));
        }
        let (spans, _scope) = Spans::watch();
        backend.renew_many(&leases, secs(9)).await;
        let seen = spans.of(Operation::Renew);
        assert_eq!(seen[0].text(), format!("count=2 outcome={together}"));
        assert_eq!(seen[1..].iter().map(Seen::text).collect::<Vec<_>>(), of_leases(each));
        assert!(seen[1..].iter().all(|lease| lease.parent == Some(seen[0].id)), "{seen:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_in_the_background_tell_each_lock() {
    let client = LockClient::new(Arc::new(MemoryBackend::new()));
    let guards =
        [client.lock_with("a", &nine()).await.unwrap(), client.lock_with("b", &nine()).await.unwrap()];
    let (spans, _scope) = Spans::watch();
    until("a renewal", || spans.of(Operation::Renew).len() >= 3).await;
    let seen = spans.texts(Operation::Renew);
    for guard in &guards {
        let (key, owner, token) = (guard.key(), guard.owner(), guard.token());
        let wanted = format!("key={key} outcome=renewed owner={owner} token={token}");
        assert!(seen.contains(&wanted), "{wanted} in {seen:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn giving_back_tells_the_token_that_the_client_knows() {
    let store = Arc::new(MemoryBackend::new());
    let client = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let (unlocked, dropped) = (client.lock("a").await.unwrap(), client.lock("b").await.unwrap());
    let wanted = [&unlocked, &dropped].map(|guard| {
        let (key, owner, token) = (guard.key(), guard.owner(), guard.token());
        format!("key={key} outcome=released owner={owner} token={token}")
    });
    let (spans, _scope) = Spans::watch();
    assert_eq!(unlocked.unlock().await.unwrap(), Release::Released);
    drop(dropped);
    assert!(client.shutdown(secs(5)).await.is_empty());
    assert_eq!(spans.texts(Operation::Unlock), wanted);
    assert_eq!(spans.texts(Operation::Close), ["outcome=ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_never_granted_has_no_token() {
    let (_, backend) = traced();
    let (spans, _scope) = Spans::watch();
    let claim = asking("k").claim;
    backend.unlock(&claim).await.unwrap();
    assert_eq!(spans.texts(Operation::Unlock), [format!("key=k outcome=expired owner={}", claim.owner)]);
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_tells_both_sides() {
    let (store, backend) = traced();
    let (held, next) = (lease(&backend, "k").await, asking("k"));
    let (spans, _scope) = Spans::watch();
    let TryLock::Acquired(granted) = backend.hand_over(&held, &next).await.unwrap() else { panic!() };
    let previous = format!("previous_owner={} previous_token={}", held.claim.owner, held.token);
    let owner = next.claim.owner;
    let acquired = format!("key=k outcome=acquired owner={owner} {previous} token={}", granted.token);
    store.faults().fail(Operation::HandOver, ErrorKind::Unavailable);
    backend.hand_over(&held, &next).await.unwrap_err();
    let failed = format!("key=k outcome=error owner={owner} {previous}");
    assert_eq!(spans.texts(Operation::HandOver), [acquired, failed]);
}

#[tokio::test(start_paused = true)]
async fn what_operators_do_has_spans() {
    let (_, backend) = traced();
    let held = lease(&backend, "jobs/1").await;
    let (spans, _scope) = Spans::watch();
    backend.probe().await.unwrap();
    assert_eq!(spans.texts(Operation::Probe), ["outcome=ok"]);
    let admin = backend.admin().unwrap();
    admin.inspect(&key("jobs/1")).await.unwrap();
    admin.inspect(&key("jobs/2")).await.unwrap();
    assert_eq!(spans.texts(Operation::Inspect), ["key=jobs/1 outcome=held", "key=jobs/2 outcome=unknown"]);
    admin.list(b"jobs/", None, 10).await.unwrap();
    admin.list(b"\xff", None, 10).await.unwrap();
    let listed = ["count=1 outcome=ok prefix=jobs/", "count=0 outcome=ok prefix=%FF"];
    assert_eq!(spans.texts(Operation::List), listed);
    admin.force_unlock(&key("jobs/1")).await.unwrap();
    admin.force_unlock(&key("jobs/1")).await.unwrap();
    let taken = format!("key=jobs/1 outcome=taken owner={} token={}", held.claim.owner, held.token);
    assert_eq!(spans.texts(Operation::ForceUnlock), [taken, "key=jobs/1 outcome=free".to_owned()]);
    admin.raise_token_floor(FencingToken::new(1 << 60).unwrap()).await.unwrap();
    let raised = format!("outcome=ok token={}", 1_u64 << 60);
    assert_eq!(spans.texts(Operation::RaiseTokenFloor), [raised]);
}

#[tokio::test(start_paused = true)]
async fn a_client_shows_the_keys_of_the_store() {
    let options = distlock_core::ClientOptions::default().namespace(Namespace::new("n").unwrap());
    let client = LockClient::with_options(Arc::new(MemoryBackend::new()), options).unwrap();
    let (spans, _scope) = Spans::watch();
    client.admin().unwrap().inspect(&key("k")).await.unwrap();
    assert_eq!(spans.texts(Operation::Inspect), ["key=n/k outcome=unknown"]);
}

//! Options at and beyond their limits.

use distlock_core::{
    ClientOptions, Effect, ErrorKind, LockClient, LockOptions, Margin, Metadata, Operation, Queueing,
    RenewPolicy, WaitPolicy,
};

use super::*;

cases! { "limits":
    absurd_ttls_are_refused_before_any_io,
    absurd_ttls_leave_nothing_in_the_store,
    the_longest_ttl_is_kept,
    contradictions_are_refused_with_the_numbers,
    waiters_are_bounded,
    strict_order_without_a_queue_is_unsupported [NoQueue],
    many_locks_are_held_at_once [ManyHeld],
    idle_keys_leave_no_record [Admin],
    labels_come_back_as_they_are [Admin],
    too_many_labels_are_refused,
    a_promise_that_is_missing_is_named,
}

const YEAR: Duration = Duration::from_secs(31_536_000);

fn absurd() -> [Duration; 5] {
    [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999), YEAR * 1_000_000, Duration::MAX]
}

async fn absurd_ttls_are_refused_before_any_io(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    for ttl in absurd() {
        let error = client.lock_with(ctx.key("key"), &LockOptions::default().ttl(ttl)).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidOptions, Effect::None), "ttl {ttl:?}");
        assert!(!error.is_retryable());
    }
    assert_eq!(script.calls(Operation::TryLock), 0, "nothing was sent");
}

async fn absurd_ttls_leave_nothing_in_the_store(ctx: &Context) {
    let backend = ctx.backend().await;
    for ttl in absurd() {
        let mut request = ctx.request("key");
        request.ttl = ttl;
        let error = backend.try_lock(&request).await.expect_err("an absurd ttl is refused");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidOptions, Effect::None), "ttl {ttl:?}");
    }
    take(&*backend, &ctx.request("key")).await;
}

async fn the_longest_ttl_is_kept(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut request = ctx.request("key");
    request.ttl = ctx.info().guarantees.ttl_max;
    let lease = take(&*backend, &request).await;
    assert!(lease.ttl == request.ttl || ctx.may_cut_ttls(), "{:?} became {:?}", request.ttl, lease.ttl);
    let left = lease.valid_until.since(ctx.clock().now());
    assert!(left > lease.ttl * 9 / 10, "{left:?} of {:?} are left: cut on the way", lease.ttl);
    refused(&*backend, &ctx.request("key")).await;
    backend.renew(&lease, request.ttl).await.unwrap();
    refused(&*backend, &ctx.request("key")).await;
    if let Some(admin) = backend.admin()
        && let Some(left) = admin.inspect(&ctx.key("key")).await.unwrap().unwrap().holders[0].expires_in
    {
        assert!(left > lease.ttl * 9 / 10, "the store shows {left:?} of {:?}", lease.ttl);
    }
}

async fn contradictions_are_refused_with_the_numbers(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let second = Duration::from_secs(1);
    let base = LockOptions::default().ttl(60 * second);
    for (options, number) in [
        (base.clone().renew(RenewPolicy::Every(21 * second)), "20s"),
        (base.clone().renew(RenewPolicy::Every(Duration::ZERO)), "0 s"),
        (base.clone().op_timeout(11 * second), "10s"),
        (base.clone().op_timeout(Duration::ZERO), "0 s"),
        (base.clone().max_hold(Duration::ZERO), "0 s"),
        (base.clone().margin(Margin::new(501, second)), "501"),
        (base.clone().margin(Margin::new(10, 31 * second)), "31s"),
    ] {
        for wait in [WaitPolicy::No, WaitPolicy::Forever] {
            let error = client.lock_with(ctx.key("key"), &options.clone().wait(wait)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOptions);
            assert!(error.to_string().contains(number), "no {number} in: {error}");
        }
        let options = ClientOptions::default().defaults(options);
        let error = LockClient::with_options(ctx.backend().await, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions);
    }
    assert_eq!(script.calls(Operation::TryLock), 0, "nothing was sent");
}

async fn waiters_are_bounded(ctx: &Context) {
    let options = ClientOptions::default().max_waiters(3);
    let client = LockClient::with_options(ctx.backend().await, options).unwrap();
    let holder = client.lock(ctx.key("key")).await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let (client, key) = (client.clone(), ctx.key("key"));
            tokio::spawn(async move { client.lock(key).await?.unlock().await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let error = until("the line to be full", Duration::from_secs(5), || async {
        let wait = WaitPolicy::UpTo(Duration::from_millis(10));
        let result = client.lock_with(ctx.key("key"), &LockOptions::default().wait(wait)).await;
        result.err().filter(|error| error.kind() == ErrorKind::Overloaded)
    })
    .await;
    assert!(error.is_retryable() && error.effect() == Effect::None);
    holder.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
}

async fn strict_order_without_a_queue_is_unsupported(ctx: &Context) {
    let client = ctx.client().await;
    let options = LockOptions::default().queue(Queueing::Strict);
    let error = client.lock_with(ctx.key("key"), &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

async fn many_locks_are_held_at_once(ctx: &Context) {
    let client = ctx.client().await;
    let options = LockOptions::default().ttl(ctx.long());
    let mut guards = Vec::new();
    for n in 0..200 {
        guards.push(client.lock_with(ctx.key(format!("key {n}")), &options).await.unwrap());
    }
    let backend = ctx.backend().await;
    for n in (0..200).step_by(17) {
        refused(&*backend, &ctx.request(format!("key {n}"))).await;
    }
    for guard in guards {
        guard.unlock().await.unwrap();
    }
}

async fn idle_keys_leave_no_record(ctx: &Context) {
    let backend = ctx.backend().await;
    for n in 0..300 {
        let request = ctx.request(format!("key {n}"));
        take(&*backend, &request).await;
        backend.unlock(&request.claim).await.unwrap();
    }
    let listed = backend.admin().unwrap().list(ctx.prefix().as_bytes(), None, 1000).await.unwrap();
    assert_eq!(listed, [], "free locks are not listed");
}

async fn labels_come_back_as_they_are(ctx: &Context) {
    let backend = ctx.backend().await;
    let long = "x".repeat(900);
    for (n, value) in ["plain", "a=b c%d", "Grüße 🔒\n'\"\\", "", long.as_str()].into_iter().enumerate() {
        let metadata = Metadata::new([("job", value), ("n", "1")]).unwrap();
        let request = ctx.request(format!("key {n}")).metadata(metadata.clone());
        take(&*backend, &request).await;
        let record = backend.admin().unwrap().inspect(&request.claim.key).await.unwrap().unwrap();
        assert_eq!(record.holders[0].metadata, metadata);
        assert_eq!(record.holders[0].metadata.get("job").as_deref(), Some(value));
    }
}

async fn too_many_labels_are_refused(ctx: &Context) {
    let value = "x".repeat(Metadata::MAX_LEN);
    let error = Metadata::new([("job", value.as_str())]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions);
    let options = LockOptions::default().metadata(Metadata::NONE);
    let guard = ctx.client().await.lock_with(ctx.key("key"), &options).await.unwrap();
    guard.unlock().await.unwrap();
}

async fn a_promise_that_is_missing_is_named(ctx: &Context) {
    let client = ctx.client().await;
    client.require(&ctx.info().guarantees).expect("a store promises what it promises");
    let mut wanted = ctx.info().guarantees.clone();
    wanted.survives_failover = true;
    if !ctx.info().guarantees.survives_failover {
        let error = client.require(&wanted).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("failover"), "{error}");
    }
}

//! A server that freezes, restarts and loses its data.

use distlock_core::{ErrorKind, LockOptions, Release, Renewal, WaitPolicy};

use super::*;

cases! { "server":
    a_frozen_server_holds_up_no_call @alone [Pause],
    a_holder_of_a_frozen_server_is_told_in_time @alone [Pause],
    a_holder_goes_on_after_a_restart @alone [Restart, SurvivesRestart],
    a_waiter_rides_out_a_restart @alone [Restart],
    a_holder_whose_record_is_gone_is_told @alone [RestartWiped],
    a_client_works_on_without_the_data @alone [RestartWiped],
    tokens_rise_without_the_data @alone [RestartWiped, TokensOutliveData],
}

const AMPLE: Duration = Duration::from_secs(20);

async fn a_frozen_server_holds_up_no_call(ctx: &Context) {
    let client = ctx.client().await;
    let options = renewable(ctx);
    let impatient = options.clone().wait(WaitPolicy::UpTo(ctx.renewable() / 2));
    let renewed = client.lock_with(ctx.key("renewed"), &options).await.unwrap();
    let unlocked = client.lock_with(ctx.key("unlocked"), &options).await.unwrap();
    ctx.faults().pause().await;
    let limit = ctx.renewable() + ctx.lateness();
    let calls = async {
        tokio::join!(
            client.try_lock_with(ctx.key("free"), &options),
            client.lock_with(ctx.key("free"), &impatient),
            renewed.renew(),
            unlocked.unlock(),
        )
    };
    let answers = tokio::time::timeout(limit, calls).await.expect("no call outlasts its own time limit");
    let kinds = [
        answers.0.map(drop).map_err(|error| error.kind()),
        answers.1.map(drop).map_err(|error| error.kind()),
        answers.2.map_err(|error| error.kind()),
        answers.3.map(drop).map_err(|error| error.kind()),
    ];
    ctx.faults().heal().await;
    for kind in kinds {
        // Lost: the validity may end before the machine gets round to the renewal.
        assert!(
            matches!(kind, Err(ErrorKind::Unavailable | ErrorKind::Lost)),
            "a frozen server gave {kind:?}"
        );
    }
    // What was sent to it is carried out now, and withdrawn.
    for name in ["free", "unlocked", "afterwards"] {
        works_again(ctx, &client, name).await;
    }
}

async fn a_holder_of_a_frozen_server_is_told_in_time(ctx: &Context) {
    let client = ctx.client().await;
    let guard = held(ctx, &client).await;
    ctx.faults().pause().await;
    lost(ctx, &guard).await;
    assert!(!guard.is_valid());
    ctx.faults().heal().await;
    // Renewals that waited in the server's buffers may still prolong the record once.
    drop(guard);
    works_again(ctx, &client, "key").await;
}

async fn a_holder_goes_on_after_a_restart(ctx: &Context) {
    let client = ctx.client().await;
    let ttl = ctx.renewable() * 8;
    let guard = ctx.track(client.lock_with(ctx.key("key"), &LockOptions::default().ttl(ttl)).await.unwrap());
    let token = guard.guard().token();
    ctx.faults().restart().await;
    let before = guard.guard().valid_until();
    let view = guard.guard().view();
    tokio::select! {
        reason = view.lost() => panic!("a restart with its data kept cost the lock: {reason}"),
        () = until("a renewal", ttl * 2, || async { (view.valid_until() > before).then_some(()) }) => {}
    }
    assert_eq!(guard.guard().token(), token);
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);
}

async fn a_waiter_rides_out_a_restart(ctx: &Context) {
    let options = LockOptions::default().ttl(ctx.long()).wait(WaitPolicy::UpTo(AMPLE * 2));
    let (one, two, key) = (ctx.client().await, ctx.client().await, ctx.key("key"));
    if !ctx.info().guarantees.survives_restart && !ctx.faults().abilities().holds_outlive_restart {
        // The holder's record goes with the restart, and the waiter may succeed it early.
        ctx.without_check("H1");
    }
    let holder = one.lock_with(&key, &options).await.unwrap();
    let waiter = tokio::spawn(async move { two.lock_with(key, &options).await?.unlock().await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    ctx.faults().restart().await;
    // The first answer may be a connection that the restart broke.
    drop(holder.unlock().await);
    let served = tokio::time::timeout(AMPLE * 2 + ctx.delay(), waiter).await.expect("the waiter is served");
    served.unwrap().expect("trouble that passes does not end a wait");
}

async fn a_holder_whose_record_is_gone_is_told(ctx: &Context) {
    // The store broke its word, and only `tokens_rise_without_the_data` says what tokens do then.
    ctx.without_check("H1");
    ctx.without_check("H2");
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.request("key")).await;
    ctx.faults().restart_wiped().await;
    let renewal = until("an answer", AMPLE, || async { backend.renew(&lease, lease.ttl).await.ok() }).await;
    assert!(matches!(renewal, Renewal::Lost(_)), "without a record a renewal gave {renewal:?}");
    take(&*backend, &ctx.request("key")).await;
    let renewal = backend.renew(&lease, lease.ttl).await.unwrap();
    assert!(matches!(renewal, Renewal::Lost(_)), "beside another holder a renewal gave {renewal:?}");
    assert!(matches!(backend.unlock(&lease.claim).await.unwrap(), Release::NotHeld(_)));
    refused(&*backend, &ctx.request("key")).await;
}

async fn a_client_works_on_without_the_data(ctx: &Context) {
    ctx.without_check("H1");
    ctx.without_check("H2");
    let client = ctx.client().await;
    let guard = held(ctx, &client).await;
    ctx.faults().restart_wiped().await;
    lost(ctx, &guard).await;
    drop(guard);
    for name in ["key", "another key"] {
        works_again(ctx, &client, name).await;
    }
}

async fn tokens_rise_without_the_data(ctx: &Context) {
    ctx.without_check("H1");
    let backend = ctx.backend().await;
    let before = take(&*backend, &ctx.request("key")).await.token;
    for _ in 0..2 {
        ctx.faults().restart_wiped().await;
        let request = ctx.request("key");
        let after = until("an answer", AMPLE, || async {
            match backend.try_lock(&request).await {
                Ok(distlock_core::TryLock::Acquired(lease)) => Some(lease.token),
                _ => None,
            }
        })
        .await;
        assert!(after > before, "the token went from {before} to {after}");
    }
}

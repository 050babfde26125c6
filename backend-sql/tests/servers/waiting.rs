//! Waking waiters, and what that costs.

use std::sync::Arc;

use distlock_core::{LockBackend, LockClient, LockOptions, WaitPolicy};
use sqlx::postgres::PgListener;

use crate::support::{Kind, MS, S, Tables, eventually, request, take, tests};

tests! {
    a_release_is_announced_only_if_somebody_waits on POSTGRES,
    a_listener_that_was_ended_listens_again on POSTGRES,
    a_herd_costs_few_statements on BOTH,
    looking_costs_the_same_for_many_waiters on MYSQL,
}

async fn a_release_is_announced_only_if_somebody_waits(tables: Tables) {
    let backend = tables.backend().await;
    let mut listener = PgListener::connect(&tables.url).await.unwrap();
    listener.listen(&format!("distlock_{}", tables.name)).await.unwrap();
    for _ in 0..20 {
        let lease = take(&backend, &request("k", 30 * S)).await;
        backend.unlock(&lease.claim).await.unwrap();
    }
    let lease = take(&backend, &request("key", 30 * S)).await;
    let other = LockClient::new(tables.backend().await);
    let waiting = tokio::spawn(async move { other.lock("key").await.unwrap().unlock().await.unwrap() });
    let mut raw = tables.raw().await;
    eventually("the waiter left its mark", async || {
        raw.number("SELECT count(*) FROM {t} WHERE awaited_until IS NOT NULL").await == 1
    })
    .await;
    backend.unlock(&lease.claim).await.unwrap();
    waiting.await.unwrap();
    assert_eq!(listener.recv().await.unwrap().payload(), "6b6579", "the first one that was announced");
}

async fn a_listener_that_was_ended_listens_again(tables: Tables) {
    let backend = tables.backend().await;
    let lease = take(&backend, &request("k", 30 * S)).await;
    let client = LockClient::new(tables.backend().await);
    let waiting = tokio::spawn(async move { client.lock("k").await.unwrap().token() });
    let mut raw = tables.raw().await;
    let listening =
        format!("SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN \"distlock_{}\"'", tables.name);
    eventually("somebody listens", async || raw.number(&listening).await == 1).await;
    let end = listening.replace("count(*)", "count(pg_terminate_backend(pid))");
    assert_eq!(raw.number(&end).await, 1);
    eventually("somebody listens again", async || raw.number(&listening).await == 1).await;
    backend.unlock(&lease.claim).await.unwrap();
    assert!(waiting.await.unwrap() > lease.token);
}

async fn a_herd_costs_few_statements(tables: Tables) {
    const CLIENTS: usize = 4;
    const WAITERS: usize = 64;
    const TURNS: u64 = (CLIENTS * WAITERS) as u64;
    let mut backends = Vec::new();
    let mut waiting = Vec::new();
    let holder = tables.backend().await;
    let lease = take(&holder, &request("k", 30 * S)).await;
    for _ in 0..CLIENTS {
        let backend = tables.backend().await;
        let client = LockClient::new(Arc::clone(&backend) as Arc<dyn LockBackend>);
        backends.push(backend);
        for _ in 0..WAITERS {
            let client = client.clone();
            waiting.push(tokio::spawn(async move {
                let options = LockOptions::default().wait(WaitPolicy::UpTo(120 * S));
                client.lock_with("k", &options).await.unwrap().unlock().await.unwrap();
            }));
        }
    }
    tokio::time::sleep(500 * MS).await;
    let sent = || backends.iter().map(|backend| backend.commands_sent().unwrap()).sum::<u64>();
    let before = sent();
    holder.unlock(&lease.claim).await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap();
    }
    let each = (sent() - before) as f64 / TURNS as f64;
    eprintln!("{:?}: {each:.2} statements a hand-off, {CLIENTS} clients of {WAITERS} waiters", tables.kind);
    assert!(each <= 4.0, "{each:.2} statements a hand-off");
}

async fn looking_costs_the_same_for_many_waiters(tables: Tables) {
    let holder = tables.backend().await;
    let backend = tables.connect(tables.config().poll(200 * MS)).await;
    let client = LockClient::new(Arc::clone(&backend) as Arc<dyn LockBackend>);
    let mut waiting = Vec::new();
    for n in 0..50 {
        take(&holder, &request(format!("k{n}"), 60 * S)).await;
        let client = client.clone();
        waiting.push(tokio::spawn(async move { client.lock(format!("k{n}")).await.map(drop) }));
    }
    tokio::time::sleep(S).await;
    let (before, begun) = (backend.commands_sent().unwrap(), backend.clock().now());
    tokio::time::sleep(3 * S).await;
    let took = backend.clock().now().since(begun).as_secs_f64();
    let rate = (backend.commands_sent().unwrap() - before) as f64 / took;
    eprintln!("{rate:.0} statements a second for 50 waiters");
    // One attempt a second and waiter, of two statements and once more for a look, and ten looks at all.
    assert!(rate < 220.0, "{rate:.0} statements a second");
    assert_eq!(tables.kind, Kind::MySql);
    for waiter in waiting {
        waiter.abort();
    }
}

//! Faults reported against other libraries, by their numbers.

use std::sync::Arc;

use distlock_core::{ErrorKind, LockAdmin, LockBackend, LockClient, TryLock};

use crate::support::{Kind, MS, S, Tables, eventually, request, take, tests};

tests! {
    b095_connections_do_not_pile_up on BOTH,
    b098_long_names_work on BOTH,
    b099_names_that_a_text_collation_takes_for_equal_are_not on BOTH,
    b102_sessions_in_other_time_zones_agree_on_the_time on BOTH,
    b103_a_statement_that_had_to_wait_grants_a_whole_lease_or_none on BOTH,
    b105_a_row_that_was_deleted_is_no_trouble on BOTH,
    b106_a_database_that_takes_no_writes_is_not_busy on POSTGRES,
    b110_nothing_is_kept_of_keys_that_are_free on BOTH,
}

async fn b095_connections_do_not_pile_up(tables: Tables) {
    let backend = tables.backend().await;
    take(&backend, &request("busy", 60 * S)).await;
    for n in 0..1000 {
        let request = request(format!("k{}", n % 10), 30 * S);
        let lease = take(&backend, &request).await;
        backend.unlock(&lease.claim).await.unwrap();
        let busy = crate::support::request("busy", 30 * S);
        assert!(matches!(backend.try_lock(&busy).await.unwrap(), TryLock::Busy(_)));
    }
    if tables.kind == Kind::Postgres {
        let own = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'distlock' AND query LIKE '%{}%'",
            tables.name
        );
        let count = tables.raw().await.number(&own).await;
        assert!(count <= 2, "{count} connections for one caller");
    }
    backend.close().await.unwrap();
}

async fn b098_long_names_work(tables: Tables) {
    let backend = tables.backend().await;
    let name = "ä".repeat(256);
    let lease = take(&backend, &request(&name, 30 * S)).await;
    let other = format!("{}b", &name[..name.len() - 2]);
    take(&backend, &request(other, 30 * S)).await;
    let listed = backend.list("ää".as_bytes(), None, 10).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(backend.inspect(&lease.claim.key).await.unwrap().unwrap().holders.len(), 1);
}

async fn b099_names_that_a_text_collation_takes_for_equal_are_not(tables: Tables) {
    let backend = tables.backend().await;
    for name in ["a", "A", "á", "a ", "a\0", "ａ"] {
        take(&backend, &request(name, 30 * S)).await;
    }
}

/// No client's clock is read, which a lint sees to. What a client can still have of its own is a time zone.
async fn b102_sessions_in_other_time_zones_agree_on_the_time(tables: Tables) {
    let mut backends = Vec::new();
    for zone in ["+11:00", "-09:30", "+00:00"] {
        backends.push(tables.connect_in_zone(zone).await);
    }
    let mut last = None;
    for (n, holder) in backends.iter().enumerate() {
        let lease = take(holder, &request("k", 60 * S)).await;
        assert!(last < Some(lease.token), "tokens rise");
        last = Some(lease.token);
        for rival in &backends {
            let TryLock::Busy(busy) = rival.try_lock(&request("k", 60 * S)).await.unwrap() else {
                panic!("{n} holds it")
            };
            let left = busy.free_in.unwrap();
            assert!(left <= 60 * S && left > 30 * S, "{left:?} left, as seen from another zone");
        }
        assert!(matches!(
            holder.renew(&lease, 60 * S).await.unwrap(),
            distlock_core::Renewal::Renewed { .. }
        ));
        holder.unlock(&lease.claim).await.unwrap();
    }
}

async fn b103_a_statement_that_had_to_wait_grants_a_whole_lease_or_none(tables: Tables) {
    let backend = tables.backend().await;
    let first = take(&backend, &request("k", 100 * MS)).await;
    let mut raw = tables.raw().await;
    raw.execute("BEGIN").await;
    raw.execute("SELECT lock_key FROM {t} WHERE lock_key = 'k' FOR UPDATE").await;
    let client = LockClient::new(Arc::clone(&backend) as Arc<dyn LockBackend>);
    let options =
        distlock_core::LockOptions::default().ttl(6 * S).wait(distlock_core::WaitPolicy::UpTo(60 * S));
    let waiting = tokio::spawn(async move { client.lock_with("k", &options).await });
    tokio::time::sleep(500 * MS).await;
    raw.execute("ROLLBACK").await;
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token() > first.token && !guard.remaining().is_zero());
}

async fn b105_a_row_that_was_deleted_is_no_trouble(tables: Tables) {
    let backend = tables.backend().await;
    let first = take(&backend, &request("k", 30 * S)).await;
    backend.unlock(&first.claim).await.unwrap();
    tables.execute("DELETE FROM {t}").await;
    let second = take(&backend, &request("k", 30 * S)).await;
    assert!(second.token > first.token);
    tables.execute("DELETE FROM {t}").await;
    let third = take(&backend, &request("k", 30 * S)).await;
    assert!(third.token > second.token);
}

async fn b106_a_database_that_takes_no_writes_is_not_busy(tables: Tables) {
    let name = format!("d{}", &tables.name[2..]);
    tables.execute(&format!("CREATE DATABASE {name}")).await;
    let backend = tables.connect(tables.config().database(&name)).await;
    let lease = take(&backend, &request("k", 30 * S)).await;
    tables.execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    let end =
        format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'");
    tables.raw().await.number(&end).await;
    let error = backend.try_lock(&request("k", 30 * S)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("takes no writes"), "{error}");
    tables.execute(&format!("ALTER DATABASE {name} RESET default_transaction_read_only")).await;
    eventually("it takes writes again", async || backend.unlock(&lease.claim).await.is_ok()).await;
    backend.close().await.unwrap();
    drop(backend);
    tables.execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
}

async fn b110_nothing_is_kept_of_keys_that_are_free(tables: Tables) {
    let backend = tables.connect(tables.config().keep_idle(S)).await;
    let lease = take(&backend, &request("k", 30 * S)).await;
    backend.unlock(&lease.claim).await.unwrap();
    let mut raw = tables.raw().await;
    eventually("the row goes", async || {
        for n in 0..64 {
            let lease = take(&backend, &request(format!("n{n}"), 30 * S)).await;
            backend.unlock(&lease.claim).await.unwrap();
        }
        raw.number("SELECT count(*) FROM {t} WHERE lock_key = 'k'").await == 0
    })
    .await;
    assert!(take(&backend, &request("k", 30 * S)).await.token > lease.token);
}

//! Connections: few of them, none lost, and back after trouble.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Effect, ErrorKind, LockAdmin as _, LockBackend, Release, Renewal, TryLock};
use distlock_sql::{mysql, postgres};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;

use crate::support::{Kind, MS, Raw, S, Tables, eventually, request, take, tests};

tests! {
    dropped_calls_leave_every_connection_as_it_was on BOTH,
    ended_connections_are_replaced on BOTH,
    held_up_attempts_leave_renewing_and_unlocking_alone on BOTH,
    a_pool_with_nothing_left_leaves_renewing_and_unlocking_alone on BOTH,
    no_grant_is_in_a_transaction_that_was_left_open_in_a_pool on BOTH,
    a_pool_without_autocommit_is_refused on MYSQL,
    a_pool_that_turns_autocommit_off_leaves_renewing_and_unlocking_alone on MYSQL,
    a_closed_backend_says_so on BOTH,
    nobody_listening_is_told on BOTH,
}

/// How many sessions a user has, and how many of them are inside a transaction.
async fn sessions(tables: &Tables, raw: &mut Raw, user: &str) -> (i64, i64) {
    let (all, inside) = match tables.kind {
        Kind::Postgres => (
            format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{user}'"),
            format!(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = '{user}' AND state LIKE 'idle in tr%'"
            ),
        ),
        Kind::MySql => (
            format!("SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{user}'"),
            format!(
                "SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p
                 ON p.id = t.trx_mysql_thread_id WHERE p.user = '{user}' AND p.command = 'Sleep'"
            ),
        ),
    };
    (raw.number(&all).await, raw.number(&inside).await)
}

/// Ends all sessions of a user, and says how many there were.
async fn end_sessions(tables: &Tables, raw: &mut Raw, user: &str) -> usize {
    match tables.kind {
        Kind::Postgres => {
            let end = format!(
                "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE usename = '{user}'"
            );
            usize::try_from(raw.number(&end).await).unwrap()
        }
        Kind::MySql => {
            let ids = format!(
                "SELECT CAST(id AS CHAR) AS id FROM information_schema.processlist WHERE user = '{user}'"
            );
            let ids = raw.texts(&ids, &["id"]).await;
            for id in &ids {
                raw.execute(&format!("KILL {}", id[0])).await;
            }
            eventually("they are gone", async || sessions(tables, raw, user).await.0 == 0).await;
            ids.len()
        }
    }
}

async fn dropped_calls_leave_every_connection_as_it_was(tables: Tables) {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let user = tables.create_user().await;
    let backend = tables.connect(tables.config().user(&user).password("x").connections(4)).await;
    for n in 0..400 {
        let request = request(format!("k{}", n % 5), 200 * MS);
        let limit = Duration::from_micros(random.u64(0..3000));
        tokio::select! {
            biased;
            () = tokio::time::sleep(limit) => {}
            _ = async {
                if let Ok(TryLock::Acquired(lease)) = backend.try_lock(&request).await {
                    let _ = backend.renew(&lease, 200 * MS).await;
                    let _ = backend.unlock(&lease.claim).await;
                }
            } => {}
        }
    }
    let mut raw = tables.raw().await;
    eventually("no call is under way", async || sessions(&tables, &mut raw, &user).await.1 == 0).await;
    let (all, _) = sessions(&tables, &mut raw, &user).await;
    assert!(all <= 4, "{all} sessions");
    for n in 0..5 {
        let request = request(format!("k{n}"), 30 * S);
        eventually("what was dropped runs out", async || {
            matches!(backend.try_lock(&request).await.unwrap(), TryLock::Acquired(_))
        })
        .await;
    }
    // All four are of use: as many calls at once.
    let requests: Vec<_> = (0..4).map(|n| request(format!("n{n}"), 30 * S)).collect();
    for answer in
        futures_util::future::join_all(requests.iter().map(|request| backend.try_lock(request))).await
    {
        assert!(matches!(answer.unwrap(), TryLock::Acquired(_)));
    }
    backend.close().await.unwrap();
    tables.drop_user(&user).await;
}

async fn ended_connections_are_replaced(tables: Tables) {
    let user = tables.create_user().await;
    let backend = tables.connect(tables.config().user(&user).password("x")).await;
    let lease = take(&backend, &request("held", 60 * S)).await;
    let mut raw = tables.raw().await;
    for n in 0..10 {
        assert!(end_sessions(&tables, &mut raw, &user).await > 0);
        // On a connection that is dead already: it is noticed, and done again on another.
        take(&backend, &request(format!("k{n}"), 30 * S)).await;
        end_sessions(&tables, &mut raw, &user).await;
        assert!(matches!(backend.renew(&lease, 60 * S).await.unwrap(), Renewal::Renewed { .. }));
    }
    end_sessions(&tables, &mut raw, &user).await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    backend.close().await.unwrap();
    tables.drop_user(&user).await;
}

/// With a row locked by somebody else, attempts use up their connections, and no others.
async fn held_up_attempts_leave_renewing_and_unlocking_alone(tables: Tables) {
    let backend = tables.connect(tables.config().connections(4)).await;
    let lease = take(&backend, &request("held", 60 * S)).await;
    let locked = take(&backend, &request("locked", 60 * S)).await;
    let mut raw = tables.raw().await;
    raw.execute("BEGIN").await;
    raw.execute("SELECT lock_key FROM {t} WHERE lock_key = 'locked' FOR UPDATE").await;
    let attempts: Vec<_> = (0..6)
        .map(|_| {
            let backend = Arc::clone(&backend);
            tokio::spawn(async move {
                let request = request("locked", 30 * S);
                // One that leaves a mark, so that it has to wait for the row on either server.
                backend.try_lock(&request.queue(true)).await
            })
        })
        .collect();
    tokio::time::sleep(200 * MS).await;
    for _ in 0..5 {
        assert!(matches!(backend.renew(&lease, 60 * S).await.unwrap(), Renewal::Renewed { .. }));
    }
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    let error = backend.unlock(&locked.claim).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for attempt in attempts {
        match attempt.await.unwrap() {
            Ok(TryLock::Busy(_)) => assert_eq!(tables.kind, Kind::Postgres, "it has to wait for the row"),
            Ok(TryLock::Acquired(lease)) => panic!("{lease:?}"),
            Err(error) => {
                assert!([ErrorKind::Unavailable, ErrorKind::Overloaded].contains(&error.kind()), "{error}");
            }
        }
    }
    raw.execute("ROLLBACK").await;
    assert_eq!(backend.unlock(&locked.claim).await.unwrap(), Release::Released);
}

async fn a_pool_with_nothing_left_leaves_renewing_and_unlocking_alone(tables: Tables) {
    let config = tables.config().response_timeout(500 * MS);
    let (backend, _in_use): (_, Box<dyn std::any::Any>) = match tables.kind {
        Kind::Postgres => {
            let pool = PgPoolOptions::new().max_connections(1).connect(&tables.url).await.unwrap();
            let backend = postgres::from_pool(pool.clone(), config).await.unwrap();
            take(&backend, &request("k", 60 * S)).await;
            (backend, Box::new(pool.acquire().await.unwrap()))
        }
        Kind::MySql => {
            let pool = MySqlPoolOptions::new().max_connections(1).connect(&tables.url).await.unwrap();
            let backend = mysql::from_pool(pool.clone(), config).await.unwrap();
            take(&backend, &request("k", 60 * S)).await;
            (backend, Box::new(pool.acquire().await.unwrap()))
        }
    };
    let error = backend.try_lock(&request("other", 60 * S)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded, "{error}");
    let other = tables.backend().await;
    let lease = take(&other, &request("held", 60 * S)).await;
    assert!(matches!(backend.renew(&lease, 60 * S).await.unwrap(), Renewal::Renewed { .. }));
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
}

/// sqlx#4393.
async fn no_grant_is_in_a_transaction_that_was_left_open_in_a_pool(tables: Tables) {
    // Raw, so that the pool knows of no transaction.
    let backend = match tables.kind {
        Kind::Postgres => {
            let pool = PgPoolOptions::new().max_connections(1).connect(&tables.url).await.unwrap();
            let backend = postgres::from_pool(pool.clone(), tables.config()).await.unwrap();
            sqlx::raw_sql("BEGIN; SELECT 1").execute(&pool).await.unwrap();
            backend
        }
        Kind::MySql => {
            let pool = MySqlPoolOptions::new().max_connections(1).connect(&tables.url).await.unwrap();
            let backend = mysql::from_pool(pool.clone(), tables.config()).await.unwrap();
            sqlx::raw_sql("START TRANSACTION; SELECT 1").execute(&pool).await.unwrap();
            backend
        }
    };
    let lease = take(&backend, &request("k", 60 * S)).await;
    let seen = tables.backend().await.inspect(&lease.claim.key).await.unwrap().unwrap();
    assert_eq!(seen.holders[0].token, lease.token, "others see the grant");
}

async fn a_pool_without_autocommit_is_refused(tables: Tables) {
    let options = MySqlPoolOptions::new().max_connections(1).after_connect(|raw, _| {
        Box::pin(async move { sqlx::raw_sql("SET autocommit = 0").execute(raw).await.map(drop) })
    });
    let pool = options.connect(&tables.url).await.unwrap();
    let error = mysql::from_pool(pool, tables.config()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Misconfigured, Effect::None), "{error}");
    assert!(error.to_string().contains("set autocommit = 1"), "{error}");
}

async fn a_pool_that_turns_autocommit_off_leaves_renewing_and_unlocking_alone(tables: Tables) {
    let pool = MySqlPoolOptions::new().max_connections(1).connect(&tables.url).await.unwrap();
    let backend = mysql::from_pool(pool.clone(), tables.config()).await.unwrap();
    let lease = take(&backend, &request("k", 60 * S)).await;
    sqlx::raw_sql("SET autocommit = 0").execute(&pool).await.unwrap();
    let error = backend.try_lock(&request("other", 60 * S)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Misconfigured, Effect::None), "{error}");
    assert!(matches!(backend.renew(&lease, 60 * S).await.unwrap(), Renewal::Renewed { .. }));
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    let other = tables.backend().await;
    take(&other, &request("k", 60 * S)).await;
}

async fn a_closed_backend_says_so(tables: Tables) {
    let backend = tables.backend().await;
    backend.close().await.unwrap();
    let error = backend.try_lock(&request("k", 30 * S)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shutdown, "{error}");
}

async fn nobody_listening_is_told(tables: Tables) {
    drop(tables.backend().await);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = format!("127.0.0.1:{port}");
    let error = tables.try_connect(tables.config().servers([&nobody])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("nobody listens"), "{error}");
    // Of several servers the one that is there is used.
    let there = tables.config().servers[0].clone();
    let backend = tables.connect(tables.config().servers([nobody, there])).await;
    take(&backend, &request("k", 30 * S)).await;
}

//! What servers really do, on which the statements rely.

use std::time::Duration;

use distlock_core::{LockBackend, Renewal, TryLock};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{Connection, MySqlConnection};

use crate::support::{MS, S, Tables, request, take, tests};

tests! {
    a_number_leaves_by_last_insert_id_and_the_last_one_counts on MYSQL,
    rows_that_an_update_finds_count_even_unchanged on MYSQL,
    simultaneous_assignments_give_the_same on MYSQL,
    an_upsert_that_does_not_match_gives_no_row on POSTGRES,
    whole_microseconds_are_exact_as_floating_point_numbers on POSTGRES,
    a_deadline_beyond_its_own_ttl_is_cut on BOTH,
    a_shared_hold_of_a_later_version_is_busy on BOTH,
}

async fn a_number_leaves_by_last_insert_id_and_the_last_one_counts(tables: Tables) {
    tables.execute("CREATE TABLE {t} (k INT PRIMARY KEY, n BIGINT)").await;
    let mut raw = MySqlConnection::connect(&tables.url).await.unwrap();
    let upsert = |or: &str| {
        let sql = format!(
            "INSERT INTO {} (k, n) VALUES (?, LAST_INSERT_ID(7)) ON DUPLICATE KEY UPDATE n = {or}",
            tables.name
        );
        sqlx::AssertSqlSafe(sql)
    };
    for (sql, number) in [
        ("n", 7),
        ("n + LAST_INSERT_ID(0)", 0),
        ("IF(n > 100, n + LAST_INSERT_ID(0), LAST_INSERT_ID(n + 1))", 8),
        ("IF(n > 1, n + LAST_INSERT_ID(0), LAST_INSERT_ID(n + 1))", 0),
    ] {
        let done = sqlx::query(upsert(sql)).bind(1).execute(&mut raw).await.unwrap();
        assert_eq!(done.last_insert_id(), number, "{sql}");
    }
    let update = format!("UPDATE {} SET n = LAST_INSERT_ID(n + 1) WHERE k = ?", tables.name);
    let update = || sqlx::query(sqlx::AssertSqlSafe(update.clone()));
    assert_eq!(update().bind(1).execute(&mut raw).await.unwrap().last_insert_id(), 9);
    assert_eq!(update().bind(2).execute(&mut raw).await.unwrap().last_insert_id(), 0, "there is none");
}

async fn rows_that_an_update_finds_count_even_unchanged(tables: Tables) {
    tables.execute("CREATE TABLE {t} (k INT PRIMARY KEY, n BIGINT)").await;
    tables.execute("INSERT INTO {t} VALUES (1, 1), (2, 2), (3, 3)").await;
    let mut raw = MySqlConnection::connect(&tables.url).await.unwrap();
    let update = format!(
        "UPDATE {} t JOIN JSON_TABLE('[1, 2, 9]', '$[*]' COLUMNS (k INT PATH '$')) r ON t.k = r.k SET t.n = t.n",
        tables.name
    );
    let done = sqlx::query(sqlx::AssertSqlSafe(update)).execute(&mut raw).await.unwrap();
    assert_eq!(done.rows_affected(), 2);
}

async fn simultaneous_assignments_give_the_same(tables: Tables) {
    let options: MySqlConnectOptions = tables.url.parse().unwrap();
    let mode = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',SIMULTANEOUS_ASSIGNMENT')";
    let pool = MySqlPoolOptions::new()
        .max_connections(2)
        .after_connect(move |raw, _| {
            Box::pin(async move { sqlx::raw_sql(mode).execute(raw).await.map(drop) })
        })
        .connect_with(options)
        .await
        .unwrap();
    let backend = distlock_sql::mysql::from_pool(pool, tables.config()).await.unwrap();
    let (one, two) = (request("k", 5 * S), request("k", 300 * MS));
    let first = take(&backend, &one).await;
    assert_eq!(take(&backend, &one).await.token, first.token, "a repeat");
    assert!(matches!(backend.try_lock(&two).await.unwrap(), TryLock::Busy(busy) if busy.holder.is_some()));
    let TryLock::Acquired(second) = backend.hand_over(&first, &two).await.unwrap() else { panic!("held") };
    assert!(second.token > first.token);
    assert!(matches!(backend.renew(&first, 5 * S).await.unwrap(), Renewal::Lost(_)));
    crate::support::eventually("the second ends", async || {
        matches!(backend.try_lock(&one).await.unwrap(), TryLock::Acquired(third) if third.token > second.token)
    })
    .await;
}

async fn an_upsert_that_does_not_match_gives_no_row(tables: Tables) {
    let mut raw = tables.raw().await;
    raw.execute("CREATE TABLE {t} (k int PRIMARY KEY, n bigint); INSERT INTO {t} VALUES (1, 1)").await;
    let upsert = |condition: &str| {
        format!(
            "INSERT INTO {{t}} AS t VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET n = excluded.n WHERE {condition}
             RETURNING CAST(n AS text) AS n"
        )
    };
    assert!(raw.texts(&upsert("t.n > 1"), &["n"]).await.is_empty());
    assert_eq!(raw.texts(&upsert("t.n = 1"), &["n"]).await, [["2"]]);
}

async fn whole_microseconds_are_exact_as_floating_point_numbers(tables: Tables) {
    let unequal = "SELECT count(*) FROM generate_series(1, 200000) n,
       LATERAL (SELECT timestamptz '2020-01-01' + n * interval '1 hour 17 minutes 3.000001 seconds') AS t(at)
     WHERE CAST(date_part('epoch', at) * CAST(1000000 AS float8) AS bigint)
       <> CAST(extract(epoch FROM at) * 1000000 AS bigint)";
    assert_eq!(tables.raw().await.number(unequal).await, 0);
}

/// As after the server's clock was set back.
async fn a_deadline_beyond_its_own_ttl_is_cut(tables: Tables) {
    let backend = tables.backend().await;
    let ttl = Duration::from_millis(500);
    let first = take(&backend, &request("k", ttl)).await;
    tables.execute("UPDATE {t} SET expires_at = expires_at + 3600000000").await;
    let next = request("k", ttl);
    let TryLock::Busy(busy) = backend.try_lock(&next).await.unwrap() else { panic!("it is held") };
    assert!(busy.free_in.unwrap() <= ttl, "nobody waits for longer than the ttl");
    crate::support::eventually("it ends by its ttl", async || {
        matches!(backend.try_lock(&next).await.unwrap(), TryLock::Acquired(lease) if lease.token > first.token)
    })
    .await;
}

/// Several holders have rows of their own, and the lock's own row has their latest deadline and no owner.
async fn a_shared_hold_of_a_later_version_is_busy(tables: Tables) {
    let backend = tables.backend().await;
    let lease = take(&backend, &request("k", 30 * S)).await;
    tables.execute("UPDATE {t} SET owner = NULL").await;
    let mut raw = tables.raw().await;
    let left = match tables.kind {
        crate::support::Kind::Postgres => "SELECT expires_at - token FROM {t}",
        crate::support::Kind::MySql => "SELECT CAST(expires_at - token AS SIGNED) FROM {t}",
    };
    let granted = raw.number(left).await;
    let next = request("k", 30 * S);
    let TryLock::Busy(busy) = backend.try_lock(&next).await.unwrap() else { panic!("it is held") };
    assert!(busy.holder.is_none() && busy.free_in.unwrap() > 20 * S);
    assert_eq!(raw.number(left).await, granted, "an attempt prolongs nothing");
    assert!(matches!(backend.renew(&lease, 30 * S).await.unwrap(), Renewal::Lost(_)));
    assert!(backend.unlock(&lease.claim).await.is_ok());
    assert_eq!(raw.number(left).await, granted);
}

//! Locks that last as long as a transaction, directly and through a pooler in transaction mode.

use std::time::Duration;

use distlock_core::{Effect, ErrorKind};
use distlock_sql::postgres::{lock_in_transaction, try_lock_in_transaction};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Row as _};

use crate::harness::{Test, fresh, shared, tests};
use crate::key;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

macro_rules! each {
    ($name:ident, $group:literal) => {
        mod $name {
            use super::*;

            tests! {
                [$group]
                a_transaction_keeps_others_out_until_it_ends,
                waiting_in_vain_leaves_the_transaction_as_it_was,
                writes_under_the_lock_are_not_lost,
                locking_twice_costs_nothing,
                a_lock_goes_with_its_connection,
            }

            async fn a_transaction_keeps_others_out_until_it_ends() {
                with_pool($group, super::a_transaction_keeps_others_out_until_it_ends).await;
            }
            async fn waiting_in_vain_leaves_the_transaction_as_it_was() {
                with_pool($group, super::waiting_in_vain_leaves_the_transaction_as_it_was).await;
            }
            async fn writes_under_the_lock_are_not_lost() {
                with_pool($group, super::writes_under_the_lock_are_not_lost).await;
            }
            async fn locking_twice_costs_nothing() {
                with_pool($group, super::locking_twice_costs_nothing).await;
            }
            async fn a_lock_goes_with_its_connection() {
                with_pool($group, super::a_lock_goes_with_its_connection).await;
            }
        }
    };
}
each!(direct, "postgres");
each!(pooled, "pgbouncer");

pub(crate) fn tests() -> Vec<Test> {
    [direct::tests(), pooled::tests()].concat()
}

/// Ends with everything answered: PgBouncer 1.18 gives answers to who has left to the next client.
async fn with_pool(group: &'static str, test: impl AsyncFnOnce(PgPool)) {
    let pool = PgPoolOptions::new().max_connections(12).connect(&shared(group).await).await.unwrap();
    test(pool.clone()).await;
    pool.close().await;
}

async fn a_transaction_keeps_others_out_until_it_ends(pool: PgPool) {
    let key = key(&fresh("k"));
    for commits in [true, false] {
        let mut holder = pool.begin().await.unwrap();
        lock_in_transaction(&mut holder, &key, LONG).await.unwrap();

        let mut other = pool.begin().await.unwrap();
        assert!(!try_lock_in_transaction(&mut other, &key).await.unwrap());
        let another_key = crate::key(&fresh("k"));
        assert!(try_lock_in_transaction(&mut other, &another_key).await.unwrap());
        other.rollback().await.unwrap();

        let waiter = tokio::spawn({
            let (pool, key) = (pool.clone(), key.clone());
            async move {
                let mut waiter = pool.begin().await.unwrap();
                lock_in_transaction(&mut waiter, &key, LONG).await.unwrap();
                waiter.commit().await.unwrap();
            }
        });
        // Long enough for it to have got the lock, were it not kept waiting.
        tokio::time::sleep(SHORT).await;
        assert!(!waiter.is_finished());
        if commits {
            holder.commit().await.unwrap()
        } else {
            holder.rollback().await.unwrap()
        }
        waiter.await.unwrap();
    }
}

async fn waiting_in_vain_leaves_the_transaction_as_it_was(pool: PgPool) {
    let (key, table) = (key(&fresh("k")), fresh("t"));
    // Nothing is prepared here, since that is lost behind the pooler.
    let run = |sql: String| sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
    run(format!("CREATE TABLE {table} (n int)")).execute(&pool).await.unwrap();
    let mut holder = pool.begin().await.unwrap();
    lock_in_transaction(&mut holder, &key, LONG).await.unwrap();

    let mut waiter = pool.begin().await.unwrap();
    run("SET LOCAL lock_timeout = '7s'; SET LOCAL statement_timeout = '8s'".to_owned())
        .execute(&mut *waiter)
        .await
        .unwrap();
    run(format!("INSERT INTO {table} VALUES (1)")).execute(&mut *waiter).await.unwrap();
    let error = lock_in_transaction(&mut waiter, &key, SHORT).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::WaitTimeout, Effect::None), "{error}");
    holder.rollback().await.unwrap();
    lock_in_transaction(&mut waiter, &key, LONG).await.unwrap();
    let settings = "SELECT current_setting('lock_timeout') || ' ' || current_setting('statement_timeout')";
    let settings: String = sqlx::raw_sql(settings).fetch_one(&mut *waiter).await.unwrap().get(0);
    assert_eq!(settings, "7s 8s");
    waiter.commit().await.unwrap();
    let read = format!("SELECT count(*) FROM {table}");
    let count: i64 = run(read).fetch_one(&pool).await.unwrap().get(0);
    assert_eq!(count, 1, "what was written before went on to the commit");
}

async fn writes_under_the_lock_are_not_lost(pool: PgPool) {
    let (key, table) = (key(&fresh("k")), fresh("t"));
    let setup = format!("CREATE TABLE {table} (n int); INSERT INTO {table} VALUES (0)");
    sqlx::raw_sql(sqlx::AssertSqlSafe(setup)).execute(&pool).await.unwrap();
    let workers = (0..8).map(|_| {
        let (pool, key, table) = (pool.clone(), key.clone(), table.clone());
        tokio::spawn(async move {
            for _ in 0..25 {
                let mut transaction = pool.begin().await.unwrap();
                lock_in_transaction(&mut transaction, &key, LONG).await.unwrap();
                let read = format!("SELECT n FROM {table}");
                let n: i32 = sqlx::raw_sql(sqlx::AssertSqlSafe(read))
                    .fetch_one(&mut *transaction)
                    .await
                    .unwrap()
                    .get(0);
                tokio::task::yield_now().await;
                let write = format!("UPDATE {table} SET n = {}", n + 1);
                sqlx::raw_sql(sqlx::AssertSqlSafe(write)).execute(&mut *transaction).await.unwrap();
                transaction.commit().await.unwrap();
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let read = format!("SELECT n FROM {table}");
    let n: i32 = sqlx::raw_sql(sqlx::AssertSqlSafe(read)).fetch_one(&pool).await.unwrap().get(0);
    assert_eq!(n, 200);
}

async fn locking_twice_costs_nothing(pool: PgPool) {
    let key = key(&fresh("k"));
    let mut holder = pool.begin().await.unwrap();
    lock_in_transaction(&mut holder, &key, SHORT).await.unwrap();
    lock_in_transaction(&mut holder, &key, SHORT).await.unwrap();
    assert!(try_lock_in_transaction(&mut holder, &key).await.unwrap());
    holder.commit().await.unwrap();
    let mut next = pool.begin().await.unwrap();
    assert!(try_lock_in_transaction(&mut next, &key).await.unwrap(), "one commit frees it");
    let error = lock_in_transaction(&mut next, &key, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions);
    next.rollback().await.unwrap();
}

async fn a_lock_goes_with_its_connection(pool: PgPool) {
    let key = key(&fresh("k"));
    let mut holder = pool.begin().await.unwrap();
    lock_in_transaction(&mut holder, &key, SHORT).await.unwrap();
    let pid: i32 = sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(&mut *holder).await.unwrap().get(0);
    let mut waiter = pool.begin().await.unwrap();
    let kill = format!("SELECT pg_terminate_backend({pid})");
    sqlx::raw_sql(sqlx::AssertSqlSafe(kill)).execute(&pool).await.unwrap();
    lock_in_transaction(&mut waiter, &key, LONG).await.unwrap();
    let late = lock_in_transaction(&mut holder, &key, SHORT).await.unwrap_err();
    assert!(late.is_retryable(), "{late}");
    waiter.rollback().await.unwrap();
}

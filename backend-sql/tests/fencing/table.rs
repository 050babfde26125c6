//! The table of tokens.

use crate::on_each_database;

macro_rules! each {
    ($module:ident, $database:ident, $groups:tt, $pool:path) => {
        use std::sync::Arc;
        use std::time::Duration;

        use distlock_core::{Effect, ErrorKind, FenceGate};
        use distlock_sql::$module::FenceTable;
        use futures_util::FutureExt;
        use sqlx::{AssertSqlSafe, Pool, $database};

        use crate::harness::{fresh, tests};
        use crate::{key, token};

        tests! {
            $groups
            a_token_below_the_highest_is_refused,
            keys_are_told_apart_to_the_byte,
            a_stale_writer_loses_where_an_unfenced_one_overwrites,
            a_token_goes_with_its_transaction,
            check_and_write_are_one_step,
            a_missing_table_is_named_and_created_by_many_at_once,
            a_dropped_admission_leaves_the_pool_usable,
        }

        /// A gate, and a table with one row of data.
        async fn gate() -> (Pool<$database>, FenceTable<$database>, String) {
            let (pool, data) = ($pool().await, fresh("data"));
            let fence = FenceTable::named(pool.clone(), &fresh("fence")).unwrap();
            fence.create().await.unwrap();
            run(&pool, format!("CREATE TABLE {data} (fenced int, plain int)")).await;
            run(&pool, format!("INSERT INTO {data} VALUES (0, 0)")).await;
            (pool, fence, data)
        }

        async fn run(on: impl sqlx::Executor<'_, Database = $database>, sql: String) {
            sqlx::query(AssertSqlSafe(sql)).execute(on).await.unwrap();
        }

        async fn number(pool: &Pool<$database>, sql: String) -> i32 {
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(pool).await.unwrap()
        }

        async fn a_token_below_the_highest_is_refused() {
            let (_, fence, _) = gate().await;
            fence.admit(&key("a"), token(8)).await.unwrap();
            fence.admit(&key("a"), token(8)).await.unwrap();
            fence.admit(&key("a"), token(i64::MAX as u64)).await.unwrap();
            let error = fence.admit(&key("a"), token(i64::MAX as u64 - 1)).await.unwrap_err();
            assert_eq!((error.kind(), error.effect()), (ErrorKind::Lost, Effect::None));
            assert!(error.to_string().contains(&format!("token {} was seen", i64::MAX)), "{error}");
            fence.admit(&key("another"), token(1)).await.unwrap();
        }

        async fn keys_are_told_apart_to_the_byte() {
            let (_, fence, _) = gate().await;
            let long = "k".repeat(512);
            for (number, name) in ["a", "A", "a ", "á", "a%", &long].into_iter().enumerate() {
                fence.admit(&key(name), token(100 - number as u64)).await.unwrap();
            }
            let bytes = distlock_core::LockKey::new([0_u8, 255, 39, 92].as_slice()).unwrap();
            fence.admit(&bytes, token(1)).await.unwrap();
        }

        async fn a_stale_writer_loses_where_an_unfenced_one_overwrites() {
            let (pool, fence, data) = gate().await;
            for (by, value) in [(2, 20), (1, 10)] {
                run(&pool, format!("UPDATE {data} SET plain = {value}")).await;
                let mut transaction = pool.begin().await.unwrap();
                let admitted = fence.admit_in(&mut transaction, &key("data"), token(by)).await;
                assert_eq!(admitted.is_ok(), by == 2);
                if admitted.is_ok() {
                    run(&mut *transaction, format!("UPDATE {data} SET fenced = {value}")).await;
                    transaction.commit().await.unwrap();
                }
            }
            assert_eq!(number(&pool, format!("SELECT plain FROM {data}")).await, 10, "the late one wins");
            assert_eq!(
                number(&pool, format!("SELECT fenced FROM {data}")).await,
                20,
                "the late one is refused"
            );
        }

        async fn a_token_goes_with_its_transaction() {
            let (pool, fence, _) = gate().await;
            let mut transaction = pool.begin().await.unwrap();
            fence.admit_in(&mut transaction, &key("a"), token(9)).await.unwrap();
            transaction.rollback().await.unwrap();
            fence.admit(&key("a"), token(3)).await.unwrap();
        }

        async fn check_and_write_are_one_step() {
            let (pool, fence, data) = gate().await;
            let mut newer = pool.begin().await.unwrap();
            fence.admit_in(&mut newer, &key("a"), token(2)).await.unwrap();
            let older = tokio::spawn({
                let fence = fence.clone();
                async move { fence.admit(&key("a"), token(1)).await }
            });
            // Long enough for the other one to have been through, were it not kept waiting.
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert!(!older.is_finished(), "it has to wait for the end of the transaction");
            run(&mut *newer, format!("UPDATE {data} SET fenced = 1")).await;
            newer.commit().await.unwrap();
            assert_eq!(older.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
        }

        async fn a_missing_table_is_named_and_created_by_many_at_once() {
            let fence = FenceTable::named($pool().await, &fresh("fence")).unwrap();
            let error = fence.admit(&key("a"), token(1)).await.unwrap_err();
            assert_eq!((error.kind(), error.effect()), (ErrorKind::Misconfigured, Effect::None));
            assert!(error.to_string().contains("FenceTable::create"), "{error}");
            let creating = (0..8).map(|_| fence.create());
            for created in futures_util::future::join_all(creating).await {
                created.unwrap();
            }
            fence.admit(&key("a"), token(1)).await.unwrap();
        }

        async fn a_dropped_admission_leaves_the_pool_usable() {
            let (pool, fence, _) = gate().await;
            let mut blocker = pool.begin().await.unwrap();
            fence.admit_in(&mut blocker, &key("a"), token(5)).await.unwrap();
            let fence = Arc::new(fence);
            for _ in 0..20 {
                // Polled once, so that it is under way.
                assert!(fence.admit(&key("a"), token(6)).now_or_never().is_none());
            }
            blocker.commit().await.unwrap();
            fence.admit(&key("a"), token(6)).await.unwrap();
            assert!(fence.admit(&key("a"), token(5)).await.unwrap_err().is_lost());
        }
    };
}
on_each_database!(each);

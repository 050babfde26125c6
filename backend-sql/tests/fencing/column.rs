//! A column of tokens in the table that is protected.

use crate::on_each_database;

macro_rules! each {
    ($module:ident, $database:ident, $groups:tt, $pool:path) => {
        use distlock_core::{Effect, ErrorKind};
        use distlock_sql::$module::TokenColumn;
        use sqlx::{AssertSqlSafe, Pool, $database};

        use crate::harness::{fresh, tests};
        use crate::{key, token};

        tests! {
            $groups
            a_row_refuses_tokens_below_its_own,
            a_refusal_says_why,
            one_statement_can_do_it_all,
            a_row_is_the_writer_s_until_the_end_of_its_transaction,
        }

        /// A table with the accounts 7 and 8.
        async fn accounts() -> (Pool<$database>, TokenColumn<$database>, String) {
            let (pool, table) = ($pool().await, fresh("accounts"));
            run(
                &pool,
                format!("CREATE TABLE {table} (id bigint primary key, balance int, lock_token bigint)"),
            )
            .await;
            run(&pool, format!("INSERT INTO {table} VALUES (7, 0, NULL), (8, 0, 0)")).await;
            (pool, TokenColumn::new(&table, "id", "lock_token").unwrap(), table)
        }

        async fn run(on: impl sqlx::Executor<'_, Database = $database>, sql: String) -> u64 {
            sqlx::query(AssertSqlSafe(sql)).execute(on).await.unwrap().rows_affected()
        }

        async fn a_row_refuses_tokens_below_its_own() {
            let (pool, column, table) = accounts().await;
            let mut connection = pool.acquire().await.unwrap();
            for id in [7_i64, 8] {
                for admitted in [3, 3, 9] {
                    column.admit_in(&mut connection, &id, &key("a"), token(admitted)).await.unwrap();
                }
                let error = column.admit_in(&mut connection, &id, &key("a"), token(8)).await.unwrap_err();
                assert_eq!((error.kind(), error.effect()), (ErrorKind::Lost, Effect::None));
                assert!(error.to_string().contains("token 9 was seen"), "{error}");
            }
            let tokens: i64 = sqlx::query_scalar(AssertSqlSafe(format!(
                "SELECT count(*) FROM {table} WHERE lock_token = 9"
            )))
            .fetch_one(&pool)
            .await
            .unwrap();
            assert_eq!(tokens, 2);
        }

        async fn a_refusal_says_why() {
            let (pool, column, table) = accounts().await;
            let mut connection = pool.acquire().await.unwrap();
            let no_row = column.admit_in(&mut connection, &9_i64, &key("a"), token(1)).await.unwrap_err();
            let no_column = TokenColumn::<$database>::new(&table, "id", "token").unwrap();
            let no_column =
                no_column.admit_in(&mut connection, &7_i64, &key("a"), token(1)).await.unwrap_err();
            let no_table = TokenColumn::<$database>::new("no_such_table", "id", "token").unwrap();
            let no_table = no_table.admit_in(&mut connection, &7_i64, &key("a"), token(1)).await.unwrap_err();
            for (error, part) in [
                (no_row, "no row with this id"),
                (no_column, "no such table or column"),
                (no_table, "no such table or column"),
            ] {
                assert_eq!(
                    (error.kind(), error.effect()),
                    (ErrorKind::Misconfigured, Effect::None),
                    "{error}"
                );
                assert!(error.to_string().contains(part), "{error}");
            }
            let unfit = TokenColumn::<$database>::new("accounts", "id", "").unwrap_err();
            assert_eq!(unfit.kind(), ErrorKind::InvalidOptions);
        }

        async fn one_statement_can_do_it_all() {
            let (pool, column, table) = accounts().await;
            let update = |balance: u32, token: u32| {
                format!(
                    "UPDATE {table} SET balance = {balance}, lock_token = {token} \
                     WHERE id = 7 AND (lock_token IS NULL OR lock_token <= {token})"
                )
            };
            assert_eq!(run(&pool, update(10, 2)).await, 1);
            assert_eq!(run(&pool, update(20, 1)).await, 0);
            let mut connection = pool.acquire().await.unwrap();
            assert!(column.refusal(&mut connection, &7_i64, &key("a"), token(1)).await.is_lost());
            let again = column.refusal(&mut connection, &7_i64, &key("a"), token(2)).await;
            assert!(again.is_retryable(), "the row admits it by now: {again}");
        }

        async fn a_row_is_the_writer_s_until_the_end_of_its_transaction() {
            let (pool, column, table) = accounts().await;
            let mut newer = pool.begin().await.unwrap();
            column.admit_in(&mut newer, &7_i64, &key("a"), token(2)).await.unwrap();
            let older = tokio::spawn({
                let (pool, column) = (pool.clone(), column.clone());
                async move {
                    let mut connection = pool.acquire().await.unwrap();
                    column.admit_in(&mut connection, &7_i64, &key("a"), token(1)).await
                }
            });
            // Long enough for the other one to have been through, were it not kept waiting.
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            assert!(!older.is_finished(), "it has to wait for the end of the transaction");
            run(&mut *newer, format!("UPDATE {table} SET balance = 2 WHERE id = 7")).await;
            newer.commit().await.unwrap();
            assert!(older.await.unwrap().unwrap_err().is_lost());
        }
    };
}
on_each_database!(each);

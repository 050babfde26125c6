//! A balance in SQLite. The file is the application's own; locks are in another one.

use std::path::Path;

use async_trait::async_trait;
use distlock::sqlite::FenceTable;
use distlock::{FencingToken, LockKey};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Sqlite, SqlitePool};

use crate::{ACCOUNT, Failure, Register};

pub(crate) struct Balance {
    pool: SqlitePool,
    fence: FenceTable<Sqlite>,
}

impl Balance {
    pub(crate) async fn open(file: &Path) -> Result<Self, Failure> {
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
        let pool = SqlitePool::connect_with(options).await?;
        let fence = FenceTable::new(pool.clone());
        fence.create().await?;
        sqlx::query("CREATE TABLE distlock_example (account INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
            .execute(&pool)
            .await?;
        sqlx::query("INSERT INTO distlock_example VALUES (7, 100)").execute(&pool).await?;
        Ok(Self { pool, fence })
    }
}

#[async_trait]
impl Register for Balance {
    async fn read(&self) -> Result<u64, Failure> {
        let select = "SELECT balance FROM distlock_example WHERE account = 7";
        let balance: i64 = sqlx::query_scalar(select).fetch_one(&self.pool).await?;
        Ok(balance.try_into()?)
    }

    async fn write(&self, token: FencingToken, balance: u64) -> Result<(), Failure> {
        let mut transaction = self.pool.begin().await?;
        // First of all, so that nobody with another token writes until the transaction ends.
        self.fence.admit_in(&mut transaction, &LockKey::new(ACCOUNT)?, token).await?;
        let update = "UPDATE distlock_example SET balance = ? WHERE account = 7";
        sqlx::query(update).bind(i64::try_from(balance)?).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }
}

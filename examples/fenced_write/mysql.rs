//! A balance in MySQL or MariaDB.

use async_trait::async_trait;
use distlock::mysql::FenceTable;
use distlock::{FencingToken, LockKey};
use sqlx::{MySql, MySqlPool};

use crate::{ACCOUNT, Failure, Register};

pub(crate) struct Balance {
    pool: MySqlPool,
    fence: FenceTable<MySql>,
}

impl Balance {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        let pool = MySqlPool::connect(url).await?;
        let fence = FenceTable::new(pool.clone());
        fence.create().await?;
        sqlx::query("CREATE TABLE IF NOT EXISTS distlock_example (account BIGINT PRIMARY KEY, balance BIGINT NOT NULL)").execute(&pool).await?;
        sqlx::query("REPLACE INTO distlock_example VALUES (7, 100)").execute(&pool).await?;
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

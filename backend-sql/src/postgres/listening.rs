//! Hearing of releases by LISTEN.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Postgres, query};

use crate::server::{Doing, Listener, Trouble, classify};

/// A connection of its own that listens to one channel.
#[derive(Debug)]
struct Listening(PgListener);

/// Opens a connection that listens to `channel`.
pub(super) async fn listen(
    options: &PgConnectOptions,
    limit: Duration,
    channel: &str,
) -> Result<Box<dyn Listener>, Trouble> {
    let opening = |error| classify::<Postgres>(error, Doing::Opening);
    // The driver takes the connection out of a pool. This one is made for it, and opens no other.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(limit)
        .test_before_acquire(false)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(options.clone());
    let mut listener = PgListener::connect_with(&pool).await.map_err(opening)?;
    listener.eager_reconnect(false);
    listener.listen(channel).await.map_err(opening)?;
    Ok(Box::new(Listening(listener)))
}

#[async_trait]
impl Listener for Listening {
    async fn next(&mut self) -> Result<String, Trouble> {
        let running = |error| classify::<Postgres>(error, Doing::Running);
        match self.0.try_recv().await.map_err(running)? {
            Some(message) => Ok(message.payload().to_owned()),
            // It would connect anew at the next call, and not say when it listens again.
            None => Err(running(sqlx::Error::Io(std::io::ErrorKind::UnexpectedEof.into()))),
        }
    }

    async fn ping(&mut self) -> Result<(), Trouble> {
        let answer = query("SELECT 1").execute(&mut self.0).await;
        answer.map(|_| ()).map_err(|error| classify::<Postgres>(error, Doing::Running))
    }
}

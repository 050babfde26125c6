//! Connections whose end is heard while nothing is asked.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Acquire, Connection, PgConnection, Postgres};
use tokio::runtime::Builder;

use crate::server::{Ear, Line, Link, Links, Times, Users};

/// How long a connection may take before it is asked what keeps it.
const PATIENCE: Duration = Duration::from_millis(50);

/// A connection whose end is heard while nothing is asked: the driver reads from one that listens for notifications,
/// whether it listens to a channel or not.
///
/// The driver would open another in place of one that has ended. This is `None` by then.
pub(crate) struct Heard(Option<PgListener>);

/// Reads from the link of a lock while nobody uses it.
pub(crate) struct Reader;

impl Ear<Postgres> for Reader {
    type Shared = ();

    fn shared(_: &Arc<Links<Postgres>>) {}

    fn new((): &(), _: &[u8]) -> Self {
        Self
    }

    async fn listen(&mut self, link: &mut Link<Postgres>, _: &Times, users: &Users) -> bool {
        tokio::select! {
            biased;
            () = users.want_it() => false,
            () = link.line.ended() => true,
        }
    }

    fn close((): &()) {}
}

impl Line<Postgres> for Heard {
    async fn open(options: &PgConnectOptions) -> Result<Self, sqlx::Error> {
        // The driver takes the connection out of a pool. This one is made for it, and opens no other.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(options.clone());
        tokio::select! {
            biased;
            opened = PgListener::connect_with(&pool) => {
                let mut listener = opened.map_err(|error| match error {
                    sqlx::Error::PoolTimedOut => io::Error::from(io::ErrorKind::TimedOut).into(),
                    other => other,
                })?;
                listener.eager_reconnect(false);
                Ok(Self(Some(listener)))
            }
            error = refusal(options) => Err(error),
        }
    }

    async fn connection(&mut self) -> Result<&mut PgConnection, sqlx::Error> {
        match &mut self.0 {
            // There is one, so none is opened.
            Some(listener) => listener.acquire().await,
            None => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    async fn close(mut self) {
        self.close_at_once();
    }
}

impl Heard {
    /// Resolves when the server has closed it. May be dropped at any point.
    async fn ended(&mut self) {
        // Nothing was subscribed to, so a notification says no more than that the session lives.
        while let Some(listener) = &mut self.0
            && let Ok(Some(_)) = listener.try_recv().await
        {}
        self.close_at_once();
    }

    /// The driver would send one more statement in a task of its own, wait for its answer, and keep the connection open
    /// meanwhile, and with it the lock. The task of a runtime that is over is dropped, and the connection with it.
    fn close_at_once(&mut self) {
        let Some(listener) = self.0.take() else { return };
        let Ok(over) = Builder::new_current_thread().build() else { return drop(listener) };
        let inside = over.enter();
        drop(listener);
        drop(inside);
        over.shutdown_background();
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.close_at_once();
    }
}

/// Why no connection comes about, if it takes long and there is a reason: a pool goes on trying where a server refuses.
async fn refusal(options: &PgConnectOptions) -> sqlx::Error {
    tokio::time::sleep(PATIENCE).await;
    match PgConnection::connect_with(options).await {
        Err(error) => error,
        Ok(_) => std::future::pending().await,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what is dropped midway here is to be dropped")]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread::JoinHandle;

    use sqlx::Executor as _;
    use sqlx::postgres::PgSslMode;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// A server that greets whoever comes first, and answers nothing.
    fn server() -> (PgConnectOptions, JoinHandle<(TcpStream, TcpListener)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(listener.local_addr().unwrap().port())
            .username("u")
            .ssl_mode(PgSslMode::Disable);
        let greeting = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut wishes = vec![0; u32::from_be_bytes(length) as usize - 4];
            stream.read_exact(&mut wishes).unwrap();
            // The client is who it says, and may ask.
            stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            (stream, listener)
        });
        (options, greeting)
    }

    async fn opened() -> (Heard, TcpStream, TcpListener) {
        let (options, greeting) = server();
        let heard = Heard::open(&options).await.unwrap();
        let (stream, listener) = greeting.join().unwrap();
        (heard, stream, listener)
    }

    /// What else comes before the connection is closed.
    fn rest(mut stream: TcpStream) -> Vec<u8> {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        rest
    }

    #[tokio::test]
    async fn the_end_is_heard_and_nothing_is_opened_in_its_place() {
        let (mut heard, mut stream, listener) = opened().await;
        assert!(tokio::time::timeout(PATIENCE, heard.ended()).await.is_err(), "it has not ended");
        assert!(heard.connection().await.is_ok(), "listening may be given up");
        // As an operator ends it.
        stream.write_all(b"E\0\0\0\x1dSFATAL\0VFATAL\0C57P01\0Mx\0\0").unwrap();
        drop(stream);
        tokio::time::timeout(SOON, heard.ended()).await.unwrap();
        assert!(heard.connection().await.is_err());
        tokio::time::timeout(SOON, heard.ended()).await.unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn a_dropped_one_is_closed_at_once_whatever_is_under_way() {
        let (heard, stream, _listener) = opened().await;
        drop(heard);
        assert_eq!(rest(stream), b"");
        let (mut heard, stream, _listener) = opened().await;
        let asking = heard.connection().await.unwrap().execute("SELECT 1");
        assert!(tokio::time::timeout(PATIENCE, asking).await.is_err(), "nobody answers");
        drop(heard);
        assert_eq!(rest(stream), b"Q\0\0\0\x0dSELECT 1\0");
    }

    #[test]
    fn it_is_closed_without_a_runtime_too() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (heard, stream, _listener) = runtime.block_on(opened());
        drop(runtime);
        drop(heard);
        assert_eq!(rest(stream), b"");
    }

    #[tokio::test]
    async fn a_refusal_is_told_before_time_is_up() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port);
        let error = tokio::time::timeout(SOON, Heard::open(&options)).await.unwrap().err().unwrap();
        let sqlx::Error::Io(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}

//! Credentials that change while locks are held.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock_core::{Error, ErrorKind, LockBackend, LockClient, LockOptions, Release, Renewal, Result};
use distlock_redis::{Credentials, CredentialsProvider, RedisBackend, RedisConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Notify;

use crate::support::{Server, eventually, key, number, request, run, take, tests};

const LONG: Duration = Duration::from_secs(60);

tests! {
    a_password_changes_under_a_held_lock,
    an_announced_change_reaches_the_open_connection,
    a_server_that_forgot_who_we_are_is_told_again,
    new_credentials_that_are_refused_leave_the_connection_as_it_is,
    a_provider_without_credentials_is_named,
    a_provider_that_hangs_does_not_hang_the_caller,
    a_provider_that_hangs_later_on_costs_one_caller_some_time,
}

/// Credentials in memory, which tests change.
#[derive(Debug)]
struct Vault {
    current: Mutex<Credentials>,
    version: AtomicU64,
    asked: AtomicU64,
}

impl Vault {
    fn new(credentials: Credentials) -> Arc<Self> {
        Arc::new(Self {
            current: Mutex::new(credentials),
            version: AtomicU64::new(0),
            asked: AtomicU64::new(0),
        })
    }

    fn change(&self, credentials: Credentials) {
        *self.current.lock().unwrap() = credentials;
    }

    fn announce(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}

struct Shared(Arc<Vault>);

#[async_trait::async_trait]
impl CredentialsProvider for Shared {
    async fn credentials(&self) -> Result<Credentials> {
        self.0.asked.fetch_add(1, Ordering::AcqRel);
        Ok(self.0.current.lock().unwrap().clone())
    }

    fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }
}

fn user(name: &str, password: &str) -> Credentials {
    Credentials::new(password).user(name)
}

async fn a_password_changes_under_a_held_lock() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    run(&mut raw, "ACL SETUSER locks on >one ~* &* +@all").await;
    let vault = Vault::new(user("locks", "one"));
    let backend =
        RedisBackend::connect(server.config().credentials(Shared(Arc::clone(&vault)))).await.unwrap();
    let client = LockClient::new(Arc::new(backend));
    let ttl = Duration::from_secs(3);
    let guard = client.lock_with("a", &LockOptions::default().ttl(ttl)).await.unwrap();
    let other = client.clone();
    // Waits through the change, and so listens.
    let waiter = tokio::spawn(async move { other.lock("a").await });
    for (turn, password) in ["two", "three"].into_iter().enumerate() {
        run(&mut raw, &format!("ACL SETUSER locks resetpass >{password}")).await;
        vault.change(user("locks", password));
        // What servers do on their own after a while: whoever has old credentials has to come again.
        assert!(number(&mut raw, "CLIENT KILL USER locks").await >= 1, "turn {turn}");
        let before = guard.valid_until();
        eventually("the lock is renewed with the new password", async || guard.valid_until() > before).await;
        assert!(guard.is_valid());
    }
    assert!(vault.asked.load(Ordering::Acquire) >= 3);
    let token = guard.token();
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);
    let next = tokio::time::timeout(LONG, waiter).await.unwrap().unwrap().unwrap();
    assert!(next.token() > token);
    next.unlock().await.unwrap();
}

async fn an_announced_change_reaches_the_open_connection() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    run(&mut raw, "ACL SETUSER old on >one ~* &* +@all").await;
    run(&mut raw, "ACL SETUSER new on >two ~* &* +@all").await;
    let vault = Vault::new(user("old", "one"));
    let backend =
        RedisBackend::connect(server.config().credentials(Shared(Arc::clone(&vault)))).await.unwrap();
    let lease = take(&backend, &request("a", LONG)).await;
    vault.change(user("new", "two"));
    assert!(matches!(backend.renew(&lease, LONG).await.unwrap(), Renewal::Renewed { .. }));
    assert_eq!(vault.asked.load(Ordering::Acquire), 1, "nobody said that anything changed");
    vault.announce();
    assert!(matches!(backend.renew(&lease, LONG).await.unwrap(), Renewal::Renewed { .. }));
    assert!(matches!(backend.renew(&lease, LONG).await.unwrap(), Renewal::Renewed { .. }));
    assert_eq!(vault.asked.load(Ordering::Acquire), 2, "once is enough");
    let clients: String = redis::from_redis_value(run(&mut raw, "CLIENT LIST").await).unwrap();
    assert!(clients.contains("user=new") && !clients.contains("user=old"), "{clients}");
    // The user of yesterday goes, and with him his connections.
    assert_eq!(number(&mut raw, "ACL DELUSER old").await, 1);
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
}

/// Passes a connection on to the server. When told, it sends RESET between two commands, which makes the
/// server forget who the connection belongs to, and says when that is done.
async fn relay(server: &Server) -> (String, Arc<Notify>, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (socket, reset, done) = (server.socket(), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, is_done) = (Arc::clone(&reset), Arc::clone(&done));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = UnixStream::connect(&socket).await.unwrap();
            let (told, is_done) = (Arc::clone(&told), Arc::clone(&is_done));
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
                    () = told.notified() => {}
                }
                server.write_all(b"RESET\r\n").await.unwrap();
                let mut answer = [0; 8];
                server.read_exact(&mut answer).await.unwrap();
                assert_eq!(&answer, b"+RESET\r\n");
                is_done.notify_one();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, reset, done)
}

async fn a_server_that_forgot_who_we_are_is_told_again() {
    let server = Server::start(&["--requirepass", "one"]).await;
    let (address, reset, done) = relay(&server).await;
    let vault = Vault::new(Credentials::new("one"));
    let config = RedisConfig::new(address).credentials(Shared(Arc::clone(&vault)));
    let backend = RedisBackend::connect(config).await.unwrap();
    let lease = take(&backend, &request("a", LONG)).await;
    reset.notify_one();
    done.notified().await;
    assert!(matches!(backend.renew(&lease, LONG).await.unwrap(), Renewal::Renewed { .. }), "nobody notices");
    assert_eq!(vault.asked.load(Ordering::Acquire), 2);
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
}

async fn new_credentials_that_are_refused_leave_the_connection_as_it_is() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    run(&mut raw, "ACL SETUSER locks on >one ~* &* +@all").await;
    let vault = Vault::new(user("locks", "one"));
    let backend =
        RedisBackend::connect(server.config().credentials(Shared(Arc::clone(&vault)))).await.unwrap();
    let lease = take(&backend, &request("a", LONG)).await;
    vault.change(user("locks", "wrong"));
    vault.announce();
    for _ in 0..20 {
        assert!(matches!(backend.renew(&lease, LONG).await.unwrap(), Renewal::Renewed { .. }));
    }
    let asked = vault.asked.load(Ordering::Acquire);
    assert!((2..10).contains(&asked), "asked {asked} times: a refusal is not repeated with every command");
    vault.change(user("locks", "one"));
    eventually("the right ones are tried", async || {
        backend.renew(&lease, LONG).await.unwrap();
        vault.asked.load(Ordering::Acquire) > asked
    })
    .await;
}

async fn a_provider_without_credentials_is_named() {
    let server = Server::start(&[]).await;
    let config = server
        .config()
        .credentials(async || Err::<Credentials, _>(Error::new(ErrorKind::Other, "the vault is sealed")));
    let error = RedisBackend::connect(config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("credentials provider"), "{error}");
    assert!(format!("{:?}", std::error::Error::source(&error)).contains("the vault is sealed"), "{error:?}");
    let wrong = server.config().credentials(async || Ok(Credentials::new("wrong-secret").user("nobody")));
    let error = RedisBackend::connect(wrong).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(!format!("{error} {error:?}").contains("wrong-secret"));
}

async fn a_provider_that_hangs_does_not_hang_the_caller() {
    let server = Server::start(&[]).await;
    let config = server
        .config()
        .connect_timeout(Duration::from_millis(200))
        .credentials(async || std::future::pending::<Result<Credentials>>().await);
    let connecting = tokio::time::timeout(LONG, RedisBackend::connect(config)).await;
    let error = connecting.expect("it ends by itself").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("credentials provider"), "{error}");
    assert_eq!(server.backend().await.admin().unwrap().inspect(&key("a")).await.unwrap(), None);
}

async fn a_provider_that_hangs_later_on_costs_one_caller_some_time() {
    struct Sealed(Arc<AtomicU64>);
    #[async_trait::async_trait]
    impl CredentialsProvider for Sealed {
        async fn credentials(&self) -> Result<Credentials> {
            if self.version() == 0 { Ok(user("locks", "one")) } else { std::future::pending().await }
        }

        fn version(&self) -> u64 {
            self.0.load(Ordering::Acquire)
        }
    }
    let server = Server::start(&[]).await;
    run(&mut server.raw().await, "ACL SETUSER locks on >one ~* &* +@all").await;
    let version = Arc::new(AtomicU64::new(0));
    let config = server.config().credentials(Sealed(Arc::clone(&version))).connect_timeout(LONG);
    let backend = RedisBackend::connect(config).await.unwrap();
    let lease = take(&backend, &request("a", LONG)).await;
    version.store(1, Ordering::Release);
    // Who gives up, as the client does after a while, must not leave the wait to the next one.
    let hurry = Duration::from_millis(100);
    let first = tokio::time::timeout(hurry, backend.renew(&lease, LONG)).await;
    assert!(first.is_err(), "it waits for the new credentials");
    for _ in 0..5 {
        let renewal = tokio::time::timeout(LONG / 2, backend.renew(&lease, LONG)).await;
        assert!(matches!(renewal.expect("the old ones still do"), Ok(Renewal::Renewed { .. })));
    }
}

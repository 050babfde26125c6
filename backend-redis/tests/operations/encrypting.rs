//! TLS with an authority of one's own, and with client certificates.

use std::path::PathBuf;
use std::time::Duration;

use distlock_conformance::free_port;
use distlock_core::{Error, ErrorKind, LockBackend, LockClient, LockOptions, Release, StoreUrl};
use distlock_redis::{RedisBackend, RedisConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::support::{Server, eventually, request, run, take, tests};

tests! {
    an_authority_of_one_s_own_is_enough,
    a_held_lock_lives_through_a_broken_connection,
    a_stranger_s_authority_is_refused,
    another_host_s_certificate_is_refused,
    an_expired_certificate_is_refused,
    a_server_that_wants_a_client_certificate_gets_it,
    a_server_that_speaks_no_tls_is_named,
    a_server_that_wants_tls_is_named,
    files_that_won_t_do_are_named,
}

const LONG: Duration = Duration::from_secs(30);

/// An authority, with certificates of a server and a client in a folder.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Each authority has a name of its own.
        params.distinguished_name.push(rcgen::DnType::CommonName, format!("authority {}", fastrand::u64(..)));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { folder: tempfile::tempdir().unwrap(), issuer };
        std::fs::write(authority.path("ca.pem"), authority.issuer.pem()).unwrap();
        authority
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate for `host`, and its key.
    pub(crate) fn certify(&self, name: &str, host: &str, change: impl FnOnce(&mut CertificateParams)) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// The options of a server with its certificate.
    pub(crate) fn options(&self, port: u16, auth_clients: &str) -> Vec<String> {
        let path = |name: &str| self.path(name).display().to_string();
        let port = port.to_string();
        [
            ("--tls-port", port),
            ("--tls-cert-file", path("server.pem")),
            ("--tls-key-file", path("server.key")),
            ("--tls-ca-cert-file", path("ca.pem")),
            ("--tls-auth-clients", auth_clients.to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
    }

    async fn server(&self, port: u16, auth_clients: &str) -> Server {
        let options = self.options(port, auth_clients);
        Server::start(&options.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    fn config(&self, port: u16) -> RedisConfig {
        RedisConfig::new(format!("localhost:{port}")).tls(true).ca(self.path("ca.pem"))
    }
}

/// An authority, a server with its certificate, and the way there.
async fn encrypted(auth_clients: &str) -> (Authority, Server, RedisConfig) {
    let (authority, port) = (Authority::new(), free_port());
    authority.certify("server", "localhost", |_| {});
    let server = authority.server(port, auth_clients).await;
    let config = authority.config(port);
    (authority, server, config)
}

/// Why a connection is refused, which no password shows in.
async fn refused(config: RedisConfig) -> Error {
    let error = RedisBackend::connect(config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}: {:?}", std::error::Error::source(&error));
    error
}

async fn an_authority_of_one_s_own_is_enough() {
    let (authority, _server, config) = encrypted("no").await;
    let ca = authority.path("ca.pem").display().to_string();
    let url = format!("rediss://{}/2?ca={ca}", config.servers[0]);
    let backend = RedisBackend::from_url(&mut StoreUrl::parse(&url).unwrap()).await.unwrap();
    let lease = take(&backend, &request("a", LONG)).await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
}

async fn a_held_lock_lives_through_a_broken_connection() {
    let (_authority, server, config) = encrypted("no").await;
    let client = LockClient::new(std::sync::Arc::new(RedisBackend::connect(config).await.unwrap()));
    let options = LockOptions::default().ttl(Duration::from_secs(3));
    let guard = client.lock_with("a", &options).await.unwrap();
    run(&mut server.raw().await, "CLIENT KILL TYPE normal SKIPME yes").await;
    let before = guard.valid_until();
    eventually("it is renewed", async || guard.valid_until() > before).await;
    guard.unlock().await.unwrap();
}

async fn a_stranger_s_authority_is_refused() {
    let (_authority, _server, config) = encrypted("no").await;
    let stranger = Authority::new();
    let mut public = config.clone();
    public.ca = None;
    for config in [config.ca(stranger.path("ca.pem")), public] {
        let error = refused(config).await;
        assert!(error.to_string().contains("authority") && error.to_string().contains("`ca`"), "{error}");
    }
}

async fn another_host_s_certificate_is_refused() {
    let (authority, port) = (Authority::new(), free_port());
    authority.certify("server", "other.example", |_| {});
    let _server = authority.server(port, "no").await;
    let error = refused(authority.config(port)).await;
    assert!(error.to_string().contains("another name"), "{error}");
}

async fn an_expired_certificate_is_refused() {
    let (authority, port) = (Authority::new(), free_port());
    authority.certify("server", "localhost", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let _server = authority.server(port, "no").await;
    let error = refused(authority.config(port)).await;
    assert!(error.to_string().contains("expired"), "{error}");
}

async fn a_server_that_wants_a_client_certificate_gets_it() {
    let (authority, _server, config) = encrypted("yes").await;
    let error = refused(config.clone()).await;
    assert!(error.to_string().contains("client certificate"), "{error}");
    authority.certify("client", "client", |_| {});
    let config = config.identity(authority.path("client.pem"), authority.path("client.key"));
    let backend = RedisBackend::connect(config.clone()).await.unwrap();
    take(&backend, &request("a", LONG)).await;
    let stranger = Authority::new();
    stranger.certify("client", "client", |_| {});
    let error = refused(config.identity(stranger.path("client.pem"), stranger.path("client.key"))).await;
    assert!(error.to_string().contains("client certificate"), "{error}");
}

async fn a_server_that_speaks_no_tls_is_named() {
    let (authority, port) = (Authority::new(), free_port());
    let _server = Server::start(&["--port", &port.to_string()]).await;
    let error = RedisBackend::connect(authority.config(port)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("TLS"), "{error}");
}

async fn a_server_that_wants_tls_is_named() {
    let (_authority, _server, config) = encrypted("no").await;
    let error = RedisBackend::connect(RedisConfig::new(&config.servers[0])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("rediss://"), "{error}");
}

async fn files_that_won_t_do_are_named() {
    let authority = Authority::new();
    authority.certify("client", "client", |_| {});
    let config = authority.config(1);
    let (cert, key) = (authority.path("client.pem"), authority.path("client.key"));
    for (config, part) in [
        (config.clone().ca(authority.path("absent.pem")), "absent.pem"),
        (config.clone().ca(&key), "no certificate"),
        (config.clone().identity(authority.path("absent.pem"), &key), "`cert`"),
        (config.clone().identity(&cert, authority.path("absent.key")), "`key`"),
        (config.clone().identity(&cert, &cert), "`key`"),
    ] {
        let error = refused(config).await;
        assert!(error.to_string().contains(part), "{error}");
    }
}

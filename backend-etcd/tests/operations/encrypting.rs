//! TLS with an authority of one's own, and with client certificates.

use std::path::PathBuf;
use std::time::Duration;

use distlock_core::{Error, ErrorKind, LockBackend, Release, Renewal, StoreUrl};
use distlock_etcd::{EtcdBackend, EtcdConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::support::{Server, busy, queued, request, take, tests};

tests! {
    an_authority_of_one_s_own_is_enough,
    a_stranger_s_authority_is_refused,
    another_host_s_certificate_is_refused,
    an_expired_certificate_is_refused,
    a_server_that_wants_a_client_certificate_gets_it,
    a_server_that_speaks_no_tls_is_named,
    a_server_that_wants_tls_is_named,
    files_that_won_t_do_are_named,
}

const TTL: Duration = Duration::from_secs(30);

/// An authority, with certificates of a server and a client in a folder.
struct Authority {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Each authority has a name of its own.
        params.distinguished_name.push(rcgen::DnType::CommonName, format!("authority {}", fastrand::u64(..)));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { folder: tempfile::tempdir().unwrap(), issuer };
        std::fs::write(authority.path("ca.pem"), authority.issuer.pem()).unwrap();
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate for `host`, and its key.
    fn certify(&self, name: &str, host: &str, change: impl FnOnce(&mut CertificateParams)) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    async fn server(&self, wants_certificates: bool) -> Server {
        let path = |name: &str| self.path(name).display().to_string();
        let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
        let mut options = vec!["--cert-file", &cert, "--key-file", &key];
        if wants_certificates {
            options.extend(["--client-cert-auth", "--trusted-ca-file", &ca]);
        }
        Server::start_encrypted(&options).await
    }

    fn config(&self, server: &Server) -> EtcdConfig {
        EtcdConfig::new([format!("localhost:{}", server.address().port())]).tls(true).ca(self.path("ca.pem"))
    }
}

/// An authority, a server with its certificate, and the way there.
async fn encrypted(wants_certificates: bool) -> (Authority, Server, EtcdConfig) {
    let authority = Authority::new();
    authority.certify("server", "localhost", |_| {});
    let server = authority.server(wants_certificates).await;
    let config = authority.config(&server);
    (authority, server, config)
}

/// Connects to a server that may not serve yet.
async fn connected(config: &EtcdConfig) -> EtcdBackend {
    let mut last = None;
    for _ in 0..1000 {
        match EtcdBackend::connect(config.clone()).await {
            Ok(backend) => return backend,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{last:?}");
}

/// Why a connection is refused, by a server that may not serve yet.
async fn refused(config: EtcdConfig, part: &str) -> Error {
    let mut last = None;
    for _ in 0..500 {
        let error = EtcdBackend::connect(config.clone()).await.unwrap_err();
        let kinds = [ErrorKind::Misconfigured, ErrorKind::Unavailable];
        if kinds.contains(&error.kind()) && error.to_string().contains(part) {
            return error;
        }
        last = Some(error);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no `{part}` in {last:?}");
}

async fn an_authority_of_one_s_own_is_enough() {
    let (authority, _server, config) = encrypted(false).await;
    connected(&config).await;
    let ca = authority.path("ca.pem").display().to_string();
    let url = format!("etcds://{}/team?ca={ca}", config.servers[0]);
    let backend = EtcdBackend::from_url(&mut StoreUrl::parse(&url).unwrap()).await.unwrap();
    let lease = take(&backend, &request("a", TTL)).await;
    let waiter = queued("a", TTL);
    let seen = busy(&backend, &waiter).await;
    assert!(matches!(backend.renew(&lease, TTL).await.unwrap(), Renewal::Renewed { .. }));
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, backend.watch_release(&waiter.claim, &seen)).await.expect("a hint").unwrap();
    take(&backend, &waiter).await;
}

async fn a_stranger_s_authority_is_refused() {
    let (_authority, _server, config) = encrypted(false).await;
    let stranger = Authority::new();
    let mut public = config.clone();
    public.ca = None;
    for config in [config.ca(stranger.path("ca.pem")), public] {
        let error = refused(config, "authority that is not trusted").await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
    }
}

async fn another_host_s_certificate_is_refused() {
    let authority = Authority::new();
    authority.certify("server", "other.example", |_| {});
    let server = authority.server(false).await;
    let error = refused(authority.config(&server), "another name").await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
}

async fn an_expired_certificate_is_refused() {
    let authority = Authority::new();
    authority.certify("server", "localhost", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let server = authority.server(false).await;
    let error = refused(authority.config(&server), "expired").await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
}

async fn a_server_that_wants_a_client_certificate_gets_it() {
    let (authority, _server, config) = encrypted(true).await;
    refused(config.clone(), "client certificate").await;
    authority.certify("client", "locks", |params| {
        params.extended_key_usages.push(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
    });
    let config = config.identity(authority.path("client.pem"), authority.path("client.key"));
    let backend = connected(&config).await;
    take(&backend, &request("a", TTL)).await;
}

async fn a_server_that_speaks_no_tls_is_named() {
    let server = Server::start(&[]).await;
    let authority = Authority::new();
    refused(authority.config(&server), "etcd:// is meant").await;
}

async fn a_server_that_wants_tls_is_named() {
    let (_authority, _server, mut config) = encrypted(false).await;
    connected(&config).await;
    (config.tls, config.ca) = (false, None);
    let error = EtcdBackend::connect(config).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Misconfigured), "{error:?}");
    assert!(error.to_string().contains("etcds://"), "{error:?}");
}

async fn files_that_won_t_do_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.pem");
    std::fs::write(&path, "").unwrap();
    for (config, part) in [
        (EtcdConfig::default().tls(true).ca(&path), "no certificate"),
        (EtcdConfig::default().tls(true).ca(folder.path().join("absent")), "`ca`"),
        (EtcdConfig::default().tls(true).identity(folder.path().join("absent"), &path), "`cert`"),
    ] {
        let error = EtcdBackend::connect(config).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

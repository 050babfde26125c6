//! TLS with an authority of one's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use distlock_core::{ErrorKind, LockBackend, Release, StoreUrl};
use distlock_sql::{mysql, postgres};
use distlock_testbed::ServiceSet;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::{S, eventually, mariadb, request, take};

/// An authority, whose certificate stands in a folder.
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
        std::fs::write(authority.file(), authority.issuer.pem()).unwrap();
        authority
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Writes a certificate for `host` and its key into `folder`, for the owner of `folder`.
    fn certify(&self, folder: &Path, host: &str) {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let owner = std::fs::metadata(folder).unwrap();
        for (name, text) in [("own.pem", certificate.pem()), ("own.key", key.serialize_pem())] {
            let file = folder.join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
    }
}

async fn connect(url: &str) -> distlock_core::Result<Arc<dyn LockBackend>> {
    let mut read = StoreUrl::parse(url)?;
    Ok(match url.starts_with("postgres") {
        true => Arc::new(postgres::from_url(&mut read).await?),
        false => Arc::new(mysql::from_url(&mut read).await?),
    })
}

async fn refused(url: &str) {
    let error = connect(url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{url}: {error}");
    assert!(error.to_string().contains("no encrypted connection came about"), "{url}: {error}");
}

/// Locks at a server that has a certificate of `authority` for 127.0.0.1, and is not fooled by others.
async fn locks(url: &str, authority: &Authority) -> Arc<dyn LockBackend> {
    let with = |ca: &Authority| format!("{url}?tls=on&ca={}", ca.file().display());
    let backend = connect(&with(authority)).await.unwrap();
    let lease = take(&*backend, &request("k", 30 * S)).await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    // A stranger's authority, those that the public trusts, and another name of the host.
    refused(&with(&Authority::new())).await;
    refused(&format!("{url}?tls=on")).await;
    refused(&with(authority).replace("@127.0.0.1:", "@localhost:")).await;
    backend
}

pub(crate) async fn on_postgres(set: ServiceSet) {
    let url = set.url("postgres");
    let authority = Authority::new();
    let ask = async |sql: &str| {
        let mut raw = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut raw).await.unwrap()
    };
    // Before the server has encryption at all.
    refused(&format!("{url}?tls=on&ca={}", authority.file().display())).await;
    let folder: String = ask("SHOW data_directory").await.get(0);
    authority.certify(Path::new(&folder), "127.0.0.1");
    let mut raw = PgConnection::connect(url).await.unwrap();
    for set in ["ssl_cert_file = 'own.pem'", "ssl_key_file = 'own.key'", "ssl = on"] {
        sqlx::raw_sql(AssertSqlSafe(format!("ALTER SYSTEM SET {set}"))).execute(&mut raw).await.unwrap();
    }
    sqlx::raw_sql("SELECT pg_reload_conf()").execute(&mut raw).await.unwrap();
    eventually("encryption is on", async || {
        ask("SELECT current_setting('ssl') = 'on'").await.get::<bool, _>(0)
    })
    .await;
    let _backend = locks(url, &authority).await;
    let encrypted = "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
                     WHERE a.application_name = 'distlock'";
    assert!(ask(encrypted).await.get::<bool, _>(0));
}

pub(crate) async fn on_mariadb() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.certify(folder.path(), "127.0.0.1");
    let option = |name: &str, file: PathBuf| format!("--{name}={}", file.display());
    let options = vec![
        option("ssl-cert", folder.path().join("own.pem")),
        option("ssl-key", folder.path().join("own.key")),
        option("ssl-ca", authority.file()),
        // So that what works without encryption does not pass for encrypted.
        "--require-secure-transport=ON".to_owned(),
    ];
    let (_server, port) = mariadb::start(folder.path(), options);
    let url = format!("mysql://root@127.0.0.1:{port}/mysql");
    eventually("the server serves", async || {
        connect(&format!("{url}?tls=on&ca={}", authority.file().display())).await.is_ok()
    })
    .await;
    let error = connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    locks(&url, &authority).await;
}

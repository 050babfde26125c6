//! Encrypted connections, to a server of the tests' own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use distlock_core::{ErrorKind, LockBackend, StoreUrl};
use distlock_zk::ZkBackend;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::process::{Child, Command};

use crate::support::{connect, eventually, request, take, tests};

tests! {
    an_encrypted_session_works_and_others_are_refused,
}

/// What the server needs for encryption, where Debian puts it.
const JARS: [&str; 4] = ["zookeeper.jar", "netty-codec.jar", "netty-resolver.jar", "slf4j-simple.jar"];

/// A certificate authority's certificate and a server's, for `localhost`, with the server's key.
fn certificates(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let server_key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .signed_by(&server_key, &issuer)
        .unwrap();
    let (ca, both) = (folder.join(format!("{name}-ca.pem")), folder.join(format!("{name}.pem")));
    std::fs::write(&ca, authority.pem()).unwrap();
    std::fs::write(&both, format!("{}{}", server_key.serialize_pem(), server.pem())).unwrap();
    (ca, both)
}

fn server(folder: &Path, port: u16, ca: &Path, both: &Path) -> Child {
    let config = format!(
        "tickTime=500\ndataDir={}\nadmin.enableServer=false\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
         ssl.keyStore.location={}\nssl.trustStore.location={}\nssl.clientAuth=none\n",
        folder.join("data").display(),
        both.display(),
        ca.display(),
    );
    let file = folder.join("zoo.cfg");
    std::fs::write(&file, config).unwrap();
    let jars: Vec<_> = JARS.iter().map(|jar| format!("/usr/share/java/{jar}")).collect();
    Command::new("java")
        .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"])
        .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", &jars.join(":")])
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(file)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn an_encrypted_session_works_and_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, both) = certificates(folder.path(), "right");
    let (wrong, _) = certificates(folder.path(), "wrong");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _server = server(folder.path(), port, &ca, &both);
    let url = |ca: &Path| format!("zks://localhost:{port}/locks?connect_timeout=2s&ca={}", ca.display());
    let open = async |url: String| ZkBackend::from_url(&mut StoreUrl::parse(&url).unwrap()).await;
    eventually("the server serves", async || open(url(&ca)).await.is_ok()).await;
    let backend = connect(&url(&ca)).await;
    let held = request("k", Duration::from_secs(2));
    take(&*backend, &held).await;
    backend.unlock(&held.claim).await.unwrap();
    eventually("a report comes encrypted as well", async || {
        let health = backend.probe().await.unwrap();
        health.version.is_some_and(|version| version.starts_with("3."))
            && health.warnings.iter().any(|warning| warning.what.contains("one server"))
    })
    .await;
    let error = open(url(&wrong)).await.expect_err("another authority is not trusted");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let plain = format!("zk://localhost:{port}/locks?connect_timeout=1s");
    open(plain).await.expect_err("the server wants encryption");
    let error = open(url(&folder.path().join("absent.pem"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    std::fs::write(folder.path().join("empty.pem"), "nothing").unwrap();
    let error = open(url(&folder.path().join("empty.pem"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}

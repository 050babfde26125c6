//! A server that wants another authentication than this backend has.

use std::process::Stdio;
use std::time::Duration;

use distlock_conformance::free_port;
use distlock_core::{ErrorKind, StoreUrl};
use distlock_zk::ZkBackend;
use tokio::process::Command;

use crate::support::{ask, tests};

tests! {
    a_server_that_demands_sasl_is_named,
}

const JARS: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";

async fn a_server_that_demands_sasl_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let config = format!(
        "tickTime=500\ndataDir={}\nadmin.enableServer=false\n4lw.commands.whitelist=*\n\
         clientPort={port}\nclientPortAddress=127.0.0.1\n",
        folder.path().join("data").display(),
    );
    let file = folder.path().join("zoo.cfg");
    std::fs::write(&file, config).unwrap();
    let _server = Command::new("java")
        .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .arg("-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
        .arg("-Dzookeeper.sessionRequireClientSASLAuth=true")
        .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", JARS])
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(&file)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let address = format!("127.0.0.1:{port}");
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    loop {
        // A server that has just begun to listen may leave a question unanswered.
        let brief = Duration::from_secs(2);
        if tokio::net::TcpStream::connect(&address).await.is_ok()
            && let Ok(report) = tokio::time::timeout(brief, ask(&address, "srvr")).await
            && report.contains("Mode:")
        {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the server does not serve");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for url in [format!("zk://{address}/locks"), format!("zk://me:secret@{address}/locks")] {
        let error = ZkBackend::from_url(&mut StoreUrl::parse(&url).unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        assert!(!error.is_retryable(), "{error}");
        assert!(error.to_string().contains("SASL") && !error.to_string().contains("secret"), "{error}");
    }
}

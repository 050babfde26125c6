//! Encrypted connections.

use distlock_core::{Error, ErrorKind, Result};
use redis::{Client, ConnectionInfo};

use crate::config::RedisConfig;

#[cfg(feature = "tls")]
pub(super) fn client(config: &RedisConfig, info: ConnectionInfo) -> Result<Client> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Where another store brings another provider, rustls panics unless the process has chosen one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let client_tls = match (&config.cert, &config.key) {
        (Some(cert), Some(key)) => {
            Some(redis::ClientTlsConfig { client_cert: read("cert", cert)?, client_key: read("key", key)? })
        }
        _ => None,
    };
    let root_cert = config.ca.as_ref().map(|path| read("ca", path)).transpose()?;
    if root_cert.as_ref().is_some_and(|pem| !contains(pem, b"-----BEGIN CERTIFICATE-----")) {
        return Err(misconfigured("the file of `ca` has no certificate in PEM format".to_owned()));
    }
    Client::build_with_tls(info, redis::TlsCertificates { client_tls, root_cert }).map_err(|error| {
        misconfigured("the files of `ca`, `cert` and `key` can't be used; see the cause".to_owned())
            .caused_by(error)
    })
}

#[cfg(feature = "tls")]
fn read(option: &str, path: &std::path::Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        misconfigured(format!("the file of `{option}`, {}, can't be read", path.display())).caused_by(error)
    })
}

#[cfg(feature = "tls")]
fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(feature = "tls")]
fn misconfigured(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, message).with_effect(distlock_core::Effect::None)
}

#[cfg(not(feature = "tls"))]
pub(super) fn client(_config: &RedisConfig, _info: ConnectionInfo) -> Result<Client> {
    Err(Error::new(
        ErrorKind::FeatureDisabled,
        "encrypted connections need the cargo feature `tls`, which this build lacks; build with `--features tls`",
    ))
}

/// What a failed handshake's error text means. It is all that the client crate passes on.
pub(crate) fn meaning(text: &str) -> Option<&'static str> {
    let has = |part: &str| text.contains(part);
    if has("not valid for name") || has("NotValidForName") {
        Some("the server's certificate is for another name; connect by a name that stands in it")
    } else if has("certificate expired") || has("certificate not valid yet") {
        Some(
            "the server's certificate has expired or is not valid yet; renew it, and see that the clocks are right",
        )
    } else if has("UnknownIssuer") || has("BadSignature") || has("CaUsedAsEndEntity") {
        Some(
            "the server's certificate comes from an authority that is not trusted; name the authority's file with `ca`",
        )
    } else if has("invalid peer certificate") {
        Some("the server's certificate is refused; see the cause")
    } else if has("fatal alert: CertificateRequired") || has("fatal alert: CertificateUnknown") {
        Some("the server wants a client certificate; name its file and its key's with `cert` and `key`")
    } else if has("fatal alert: UnknownCA")
        || has("fatal alert: UnknownCa")
        || has("fatal alert: BadCertificate")
        || has("fatal alert: DecryptError")
    {
        Some("the server does not trust the client certificate; use one that its authority has signed")
    } else if has("received corrupt message") || has("fatal alert") {
        Some(
            "the server and this program don't agree on encryption; see the cause, and whether redis:// is meant",
        )
    } else {
        None
    }
}

//! Encrypted connections.

use distlock_core::{Error, ErrorKind, Result};
use etcd_client::ConnectOptions;

use crate::config::EtcdConfig;

#[cfg(feature = "tls")]
pub(super) fn secured(options: ConnectOptions, config: &EtcdConfig) -> Result<ConnectOptions> {
    use etcd_client::{Certificate, Identity, TlsOptions};

    let mut tls = TlsOptions::new();
    tls = match &config.ca {
        Some(path) => {
            let pem = read("ca", path)?;
            if !contains(&pem, b"-----BEGIN CERTIFICATE-----") {
                return Err(misconfigured("the file of `ca` has no certificate in PEM format".to_owned()));
            }
            tls.ca_certificate(Certificate::from_pem(pem))
        }
        None => tls.with_webpki_roots(),
    };
    if let (Some(cert), Some(key)) = (&config.cert, &config.key) {
        tls = tls.identity(Identity::from_pem(read("cert", cert)?, read("key", key)?));
    }
    Ok(options.with_tls(tls))
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
pub(super) fn secured(_options: ConnectOptions, _config: &EtcdConfig) -> Result<ConnectOptions> {
    Err(Error::new(
        ErrorKind::FeatureDisabled,
        "encrypted connections need the cargo feature `tls`, which this build lacks; build with `--features tls`",
    ))
}

//! Encrypted connections.

use std::path::Path;

use distlock_core::{Effect, Error, ErrorKind, Result};
use rustls::crypto::CryptoProvider;
#[cfg(not(feature = "ring"))]
use rustls::crypto::aws_lc_rs as provider;
#[cfg(feature = "ring")]
use rustls::crypto::ring as provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use zookeeper_client::TlsOptions;

use crate::config::ZkConfig;

/// What the client crate needs for encryption, if it is wanted.
pub(super) fn options(config: &ZkConfig) -> Result<Option<TlsOptions>> {
    let Some(ca) = config.ca.as_ref().filter(|_| config.tls) else { return Ok(None) };
    choose_provider();
    let options = TlsOptions::new().with_pem_ca(&read("ca", ca)?).map_err(unusable)?;
    match (&config.cert, &config.key) {
        (Some(cert), Some(key)) => {
            let identity = options.with_pem_identity(&read("cert", cert)?, &read("key", key)?);
            identity.map(Some).map_err(unusable)
        }
        _ => Ok(Some(options)),
    }
}

/// The same for connections that the client crate does not open, which are asked how the servers are.
pub(crate) fn client_config(config: &ZkConfig) -> Result<Option<ClientConfig>> {
    let Some(ca) = config.ca.as_ref().filter(|_| config.tls) else { return Ok(None) };
    choose_provider();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates("ca", ca)?);
    let builder = ClientConfig::builder().with_root_certificates(roots);
    match (&config.cert, &config.key) {
        (Some(cert), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(read("key", key)?.as_bytes()).map_err(unusable)?;
            let identified = builder.with_client_auth_cert(certificates("cert", cert)?, key);
            identified.map(Some).map_err(unusable)
        }
        _ => Ok(Some(builder.with_no_client_auth())),
    }
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all: std::result::Result<_, _> =
        CertificateDer::pem_slice_iter(read(option, path)?.as_bytes()).collect();
    all.map_err(unusable)
}

fn choose_provider() {
    if CryptoProvider::get_default().is_none() {
        // Where several are compiled in, rustls panics unless the process has chosen one. Whoever
        // comes first chooses, and any will do.
        let _ = provider::default_provider().install_default();
    }
}

fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    misconfigured("the files of `ca`, `cert` and `key` can't be used; see the cause".to_owned())
        .caused_by(error)
}

fn read(option: &str, path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        misconfigured(format!("the file of `{option}`, {}, can't be read", path.display())).caused_by(error)
    })
}

fn misconfigured(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None)
}

//! A server by way of a proxy.

use distlock_conformance::Proxy;
use distlock_core::StoreUrl;

/// A proxy in front of the first server of `url`, and the URL that leads through it.
pub(crate) fn proxied(url: &str) -> (Proxy, String) {
    let read = StoreUrl::parse(url).unwrap();
    let host = read.hosts.first().unwrap();
    let address = format!("{}:{}", host.name, host.port.unwrap());
    let proxy = Proxy::start(&*address).unwrap();
    let behind = url.replace(&address, &proxy.address().to_string());
    assert_ne!(behind, url);
    (proxy, behind)
}

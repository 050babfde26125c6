//! In place of the endpoint, where the feature `metrics` is off.

use std::convert::Infallible;
use std::net::SocketAddr;

use distlock::LockClient;

use crate::exit::Failure;

/// There is none.
#[derive(Debug)]
pub(crate) struct Endpoint(Infallible);

#[derive(Debug)]
pub(crate) struct Serving(Infallible);

impl Endpoint {
    pub(crate) async fn open(_: SocketAddr) -> Result<Self, Failure> {
        Err(Failure::usage(
            "--metrics-listen needs the feature `metrics`, which this build lacks; install with --features metrics",
        ))
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        match self.0 {}
    }

    pub(crate) const fn serve(self, _: &LockClient) -> Serving {
        Serving(self.0)
    }
}

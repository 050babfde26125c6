//! How a URL becomes this backend.

use std::sync::Arc;

use distlock_core::{Driver, LockBackend};

use super::{SCHEMES, SqliteBackend, SqliteConfig};

/// The entry for a [`Registry`](distlock_core::Registry): `sqlite:FILE`.
#[must_use]
pub fn driver() -> Driver {
    Driver::new(SCHEMES, SqliteConfig::URL_OPTIONS, |mut url| async move {
        let backend = SqliteBackend::from_url(&mut url).await?;
        Ok(Arc::new(backend) as Arc<dyn LockBackend>)
    })
}

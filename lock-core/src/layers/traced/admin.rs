//! The spans of what operators do.

use std::fmt::{self, Display};

use async_trait::async_trait;
use tracing::field::display;
use tracing::{Instrument, Span};

use super::Traced;
use super::noted::noted;
use crate::admin::{LockAdmin, LockRecord};
use crate::backend::LockBackend;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::escape;
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::outcome::Holder;

impl<B: LockBackend> Traced<B> {
    fn inner_admin(&self) -> Result<&dyn LockAdmin> {
        self.inner.admin().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this store can't be inspected")
                .on_backend(self.inner.info().name)
        })
    }
}

/// The start of keys, shown as keys are.
struct Prefix<'a>(&'a [u8]);

impl Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape::encode(self.0, f)
    }
}

fn found(record: &Option<LockRecord>) -> &'static str {
    let held = record.as_ref().map(|record| !record.holders.is_empty());
    match held {
        Some(true) => "held",
        Some(false) => "free",
        None => "unknown",
    }
}

fn listed(records: &[LockRecord]) -> &'static str {
    Span::current().record("count", records.len());
    "ok"
}

fn taken(victim: &Option<Holder>) -> &'static str {
    let Some(victim) = victim else { return "free" };
    Span::current().record("owner", display(&victim.owner));
    Span::current().record("token", victim.token.get());
    "taken"
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockAdmin for Traced<B> {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        let span = self.span(Operation::Inspect);
        span.record("key", display(key));
        async { noted(self.inner_admin()?.inspect(key).await, found) }.instrument(span).await
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        let span = self.span(Operation::List);
        span.record("prefix", display(Prefix(prefix)));
        async { noted(self.inner_admin()?.list(prefix, after, limit).await, |records| listed(records)) }
            .instrument(span)
            .await
    }

    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        let span = self.span(Operation::ForceUnlock);
        span.record("key", display(key));
        async { noted(self.inner_admin()?.force_unlock(key).await, taken) }.instrument(span).await
    }

    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        let span = self.span(Operation::RaiseTokenFloor);
        span.record("token", floor.get());
        async { noted(self.inner_admin()?.raise_token_floor(floor).await, |()| "ok") }.instrument(span).await
    }
}

//! Asking the server how it is, on a connection that holds no lock.

use async_trait::async_trait;
use distlock_core::{Clock, Health, Result};

use super::dialect::SessionDialect;
use super::link::Link;
use super::links::Links;
use crate::server::probe::{Asked, KeptAs, Probing};
use crate::server::statement::{Row, Statement};

/// The server's version, and what is wrong with its set-up.
pub(super) async fn probe<D: SessionDialect>(links: &Links<D>, probing: &Probing) -> Result<Health> {
    // One that was opened before shows less than one that can be opened now.
    links.forget_idle();
    let (link, _) = links.check_out().await?;
    let mut asking = Asking { links, link, has_failed: false };
    let health = crate::server::probe::probe(&mut asking, probing, KeptAs::Sessions).await?;
    if !asking.has_failed {
        links.check_in(asking.link);
    }
    Ok(health)
}

struct Asking<'a, D: SessionDialect> {
    links: &'a Links<D>,
    link: Link<D>,
    /// After that the connection is of no use.
    has_failed: bool,
}

#[async_trait]
impl<D: SessionDialect> Asked for Asking<'_, D> {
    fn clock(&self) -> &Clock {
        &self.links.clock
    }

    async fn ask(&mut self, statement: Statement) -> Result<Vec<Row>> {
        self.links.count(1);
        let given = self.link.run(&statement, self.links.response_timeout()).await;
        self.has_failed |= given.is_err();
        Ok(given?.rows)
    }
}

//! Prolonging leases, many in one go.

use std::sync::{Mutex, MutexGuard, PoisonError};

use distlock_core::{Clock, Instant};
use etcd_client::{Client, LeaseKeepAliveStream, LeaseKeeper};

use crate::error::{Failure, classify};
use crate::leases::{Kept, StoreLease, seconds_of};
use crate::link::Link;

/// So many streams are kept for the next requests.
const KEPT: usize = 4;

/// Streams on which leases are prolonged. Each serves one caller at a time, so that the n-th answer is
/// that to the n-th request; one whose caller left midway is not used again.
#[derive(Debug, Default)]
pub(crate) struct Keepalives {
    idle: Mutex<Vec<Stream>>,
}

#[derive(Debug)]
struct Stream {
    requests: LeaseKeeper,
    answers: LeaseKeepAliveStream,
    member: usize,
}

impl Keepalives {
    /// Prolongs leases, which the store may not have any more; the answers stand in their order.
    ///
    /// May be dropped at any point.
    pub(crate) async fn keep(
        &self,
        link: &Link,
        clock: &Clock,
        ids: &[i64],
    ) -> Result<Vec<Option<Kept>>, Failure> {
        let Some(first) = ids.first() else { return Ok(Vec::new()) };
        link.count();
        if let Some(stream) = self.take(link) {
            let member = stream.member;
            // It may have broken since it was used last, and then the others have that were on the same connection.
            match self.use_stream(link, clock, stream, ids).await {
                Ok(kept) => return Ok(kept),
                Err(_) => self.idle().retain(|idle| idle.member != member),
            }
        }
        match open(link, *first).await {
            Ok(stream) => self.use_stream(link, clock, stream, ids).await,
            // The server closes no stream for that, but the client crate tells it no other way.
            Err(failure) if failure.is_no_lease() => {
                let mut kept = vec![None];
                kept.extend(Box::pin(self.keep(link, clock, &ids[1..])).await?);
                Ok(kept)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Prolongs one lease; `None` if the store does not have it.
    pub(crate) async fn keep_one(
        &self,
        link: &Link,
        clock: &Clock,
        lease: StoreLease,
    ) -> Result<Option<StoreLease>, Failure> {
        // In a box, since it is large, and an attempt at a lock has room for it that seldom needs it.
        let kept = Box::pin(self.keep(link, clock, &[lease.id])).await?.pop().flatten();
        Ok(kept.map(|kept| lease.prolonged(kept)))
    }

    /// Drops all streams.
    pub(crate) fn close(&self) {
        self.idle().clear();
    }

    async fn use_stream(
        &self,
        link: &Link,
        clock: &Clock,
        mut stream: Stream,
        ids: &[i64],
    ) -> Result<Vec<Option<Kept>>, Failure> {
        let alive_from = clock.now();
        let member = stream.member;
        let kept = link.within(member, exchange(link, &mut stream, ids, alive_from)).await?;
        let mut idle = self.idle();
        if idle.len() < KEPT {
            idle.push(stream);
        }
        Ok(kept)
    }

    /// A stream to use. Those of a member that failed are dropped, as each would cost its user's time limit, and so are those
    /// of one that calls no longer go to.
    fn take(&self, link: &Link) -> Option<Stream> {
        let mut idle = self.idle();
        idle.retain(|stream| link.uses(stream.member));
        idle.pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn open(link: &Link, first: i64) -> Result<Stream, Failure> {
    let open = |client: &Client| {
        let mut leases = client.lease_client();
        async move { leases.keep_alive(first).await }
    };
    let ((requests, answers), member) = link.open(open).await?;
    Ok(Stream { requests, answers, member })
}

/// Sends all requests while it reads the answers.
async fn exchange(
    link: &Link,
    stream: &mut Stream,
    ids: &[i64],
    alive_from: Instant,
) -> Result<Vec<Option<Kept>>, Failure> {
    let Stream { requests, answers, .. } = stream;
    let ask = async {
        for id in ids {
            requests.id = *id;
            requests.keep_alive().await.map_err(|error| classify(error, "the server"))?;
        }
        Ok(())
    };
    let read = async {
        let mut kept = Vec::with_capacity(ids.len());
        for id in ids {
            let answer = answers.message().await.map_err(|error| classify(error, "the server"))?;
            let answer = answer.filter(|answer| answer.id() == *id).ok_or_else(Failure::ended)?;
            let term = link.heard_of(answer.header());
            kept.push((answer.ttl() > 0).then(|| Kept { ttl: seconds_of(answer.ttl()), alive_from, term }));
        }
        Ok(kept)
    };
    futures_util::try_join!(ask, read).map(|((), kept)| kept)
}

//! A session on the client crate.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{Backoff, Clock, Instant, Timers};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use zookeeper_client::{
    Acls, CreateMode, Error as ZkError, MultiReadResult, MultiWriteError, MultiWriteResult, Stat,
};

use super::dial::Dialer;
use super::link::Link;
use super::{
    Beats, Condition, Created, End, Failure, Limits, Node, Outcome, Session, Succession, Successor, Watch,
    Write, Written,
};
use crate::config::Access;

/// Pauses between attempts to connect anew, which the client crate itself lets grow without end.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MOST: Duration = Duration::from_millis(500);
/// A connection is given up that has left requests unanswered for so long.
const SILENCE_MOST: Duration = Duration::from_secs(1);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(400);

/// A session on the client crate, with time limits, a bound on the calls under way, a count of them,
/// and its own way of connecting anew.
pub(crate) struct ClientSession {
    link: Mutex<Arc<Link>>,
    condition: watch::Sender<Condition>,
    /// Connects anew, unless the application does.
    dialer: Option<Dialer>,
    access: Access,
    beats: Beats,
    clock: Clock,
    limits: Limits,
    permits: Semaphore,
    timers: Timers,
    sent: Arc<AtomicU64>,
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("link", &self.link()).finish_non_exhaustive()
    }
}

impl ClientSession {
    /// The session of a connection that was asked for at `opened`, if that is known.
    pub(crate) fn new(
        link: Link,
        dialer: Option<Dialer>,
        opened: Option<Instant>,
        access: Access,
        limits: Limits,
        sent: Arc<AtomicU64>,
    ) -> Self {
        Self {
            beats: Beats::new(link.client.session_timeout(), opened),
            condition: watch::Sender::new(link.condition()),
            link: Mutex::new(link.adopt()),
            dialer,
            access,
            clock: Clock::system(),
            limits,
            permits: Semaphore::new(limits.calls),
            timers: Timers::new(),
            sent,
        }
    }

    fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Connects anew, with pauses of ours.
    async fn redial(&self, dialer: &Dialer) -> Result<Link, End> {
        let info = self.link().client.session().clone();
        let mut pause = Backoff::new(PAUSE_FIRST, PAUSE_MOST);
        loop {
            let attempt = async {
                let link = dialer.dial(Some(info.clone())).await?;
                if link.client.session_id() != info.id() {
                    // The servers gave another session without a word.
                    return Err(ZkError::SessionExpired);
                }
                // A server that is behind would show older queues than those that were seen.
                link.client.sync("/").await?;
                Ok(link)
            };
            match self.timers.limit(self.limits.answer.min(SILENCE_MOST), attempt).await {
                Some(Ok(link)) => return Ok(link),
                Some(Err(ZkError::SessionExpired)) => return Err(End::Expired),
                Some(Err(ZkError::AuthFailed)) => return Err(End::Denied),
                _ => tokio::time::sleep(pause.pause()).await,
            }
        }
    }

    fn acls(&self) -> Acls<'static> {
        match self.access {
            Access::Open => Acls::anyone_all(),
            Access::Creator => Acls::creator_all(),
        }
    }

    /// Waits for the connection and for the right to call, and says when the call leaves.
    async fn admit(&self) -> Outcome<(SemaphorePermit<'_>, Arc<Link>, Instant)> {
        let admitted = self.timers.limit(self.limits.answer, async {
            self.connected().await?;
            // The semaphore is never closed.
            self.permits.acquire().await.map_err(|_| Failure::Unsent)
        });
        let permit = admitted.await.unwrap_or(Err(Failure::Unsent))?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        let (link, now) = (self.link(), self.clock.now());
        link.asked(now);
        Ok((permit, link, now))
    }

    /// A request that is made while there is no connection would be sent when there is one, perhaps
    /// long after its caller gave up.
    async fn connected(&self) -> Outcome<()> {
        if *self.condition.borrow() == Condition::Connected {
            return Ok(());
        }
        let mut condition = self.condition.subscribe();
        // The sender lives as long as `self`.
        let known = condition.wait_for(|condition| *condition != Condition::Disconnected).await;
        match known.map(|condition| *condition) {
            Ok(Condition::Over(end)) => Err(Failure::Over(end)),
            _ => Ok(()),
        }
    }

    async fn answer<T, E>(&self, link: &Link, call: impl Future<Output = Result<T, E>>) -> Result<T, E>
    where
        E: From<ZkError>,
    {
        match self.timers.limit(self.limits.answer, call).await {
            Some(answer) => {
                link.answered();
                answer
            }
            None => Err(ZkError::Timeout.into()),
        }
    }

    /// The answer to a write.
    async fn written<T>(
        &self,
        link: &Link,
        sent: Instant,
        call: impl Future<Output = Result<T, ZkError>>,
    ) -> Outcome<T> {
        let answer = self.answer(link, call).await?;
        self.beats.acknowledged(sent);
        Ok(answer)
    }

    async fn make(&self, path: &str, mode: CreateMode) -> Outcome<()> {
        let (_permit, link, sent) = self.admit().await?;
        let options = mode.with_acls(self.acls());
        match self.written(&link, sent, link.client.create(path, b"", &options)).await {
            Err(Failure::Refused(ZkError::NodeExists)) => Ok(()),
            made => made.map(drop),
        }
    }
}

#[async_trait]
impl Session for ClientSession {
    fn id(&self) -> i64 {
        self.link().client.session_id().0
    }

    fn beats(&self) -> &Beats {
        &self.beats
    }

    async fn create_place(&self, prefix: &str, data: &[u8]) -> Outcome<Created> {
        let (_permit, link, sent) = self.admit().await?;
        let options = CreateMode::EphemeralSequential.with_acls(self.acls());
        let (stat, number) = self.written(&link, sent, link.client.create(prefix, data, &options)).await?;
        Ok(Created { path: format!("{prefix}{number}"), czxid: stat.czxid, sent })
    }

    async fn create_lock(&self, path: &str) -> Outcome<()> {
        self.make(path, CreateMode::Container).await
    }

    async fn create_folder(&self, path: &str) -> Outcome<()> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
        for end in ends {
            self.make(&path[..end], CreateMode::Persistent).await?;
        }
        Ok(())
    }

    async fn write(&self, path: &str, data: &[u8], version: i32) -> Outcome<(Written, Instant)> {
        let (_permit, link, sent) = self.admit().await?;
        let stat = self.written(&link, sent, link.client.set_data(path, data, Some(version))).await?;
        Ok((Written { version: stat.version, mzxid: stat.mzxid }, sent))
    }

    async fn write_all(&self, writes: &[Write<'_>]) -> Result<Instant, (Option<usize>, Failure)> {
        let (_permit, link, sent) = self.admit().await.map_err(|failure| (None, failure))?;
        let mut writer = link.client.new_multi_writer();
        for write in writes {
            let added = writer.add_set_data(write.path, write.data, Some(write.version));
            added.map_err(|error| (None, error.into()))?;
        }
        match self.answer(&link, writer.commit()).await {
            Ok(_) => {
                self.beats.acknowledged(sent);
                Ok(sent)
            }
            Err(MultiWriteError::RequestFailed { source }) => Err((None, source.into())),
            Err(MultiWriteError::OperationFailed { index, source }) => Err((Some(index), source.into())),
        }
    }

    async fn succeed(&self, successor: &Successor<'_>) -> Outcome<Succession> {
        let (_permit, link, sent) = self.admit().await?;
        let Successor { beside, before, prefix, path, data } = *successor;
        let options = CreateMode::EphemeralSequential.with_acls(self.acls());
        let mut writer = link.client.new_multi_writer();
        writer.add_check_version(beside.0, beside.1)?;
        writer.add_create(prefix, b"", &options)?;
        // There is no such node if the server gave another number. The answer to this also tells the transaction, which
        // that to a create among others does not on every server.
        writer.add_set_data(path, data, Some(0))?;
        writer.add_delete(before, None)?;
        match self.answer(&link, writer.commit()).await {
            Ok(results) => {
                let Some(MultiWriteResult::SetData { stat }) = results.into_iter().nth(2) else {
                    return Err(unreadable());
                };
                self.beats.acknowledged(sent);
                Ok(Succession::Done(Created { path: path.to_owned(), czxid: stat.czxid, sent }))
            }
            Err(MultiWriteError::OperationFailed {
                index: 0,
                source: ZkError::NoNode | ZkError::BadVersion,
            }) => Ok(Succession::OtherVersion),
            Err(MultiWriteError::OperationFailed { index: 2, source: ZkError::NoNode }) => {
                Ok(Succession::Followed)
            }
            Err(MultiWriteError::OperationFailed { source: ZkError::NoNode, .. }) => Ok(Succession::Gone),
            Err(error) => Err(ZkError::from(error).into()),
        }
    }

    async fn relieve(&self, write: &Write<'_>, before: &str) -> Outcome<Option<Instant>> {
        let (_permit, link, sent) = self.admit().await?;
        let mut writer = link.client.new_multi_writer();
        writer.add_set_data(write.path, write.data, Some(write.version))?;
        writer.add_delete(before, None)?;
        match self.answer(&link, writer.commit()).await {
            Ok(_) => {
                self.beats.acknowledged(sent);
                Ok(Some(sent))
            }
            Err(MultiWriteError::OperationFailed {
                source: ZkError::NoNode | ZkError::BadVersion, ..
            }) => Ok(None),
            Err(error) => Err(ZkError::from(error).into()),
        }
    }

    async fn delete(&self, path: &str, version: Option<i32>) -> Outcome<()> {
        let (_permit, link, sent) = self.admit().await?;
        self.written(&link, sent, link.client.delete(path, version)).await
    }

    async fn children(&self, path: &str, beside: &str) -> Outcome<(Vec<String>, Option<Node>)> {
        let (_permit, link, _) = self.admit().await?;
        let mut reader = link.client.new_multi_reader();
        reader.add_get_children(path)?;
        reader.add_get_data(beside)?;
        let mut results = self.answer(&link, reader.commit()).await?.into_iter();
        let children = match results.next() {
            Some(MultiReadResult::Children { children }) => children,
            Some(MultiReadResult::Error { err }) => return Err(err.into()),
            _ => return Err(unreadable()),
        };
        match results.next() {
            Some(MultiReadResult::Data { data, stat }) => Ok((children, Some(node(data, stat)))),
            Some(MultiReadResult::Error { err: ZkError::NoNode }) => Ok((children, None)),
            Some(MultiReadResult::Error { err }) => Err(err.into()),
            _ => Err(unreadable()),
        }
    }

    async fn read(&self, path: &str) -> Outcome<Node> {
        let (_permit, link, _) = self.admit().await?;
        let (data, stat) = self.answer(&link, link.client.get_data(path)).await?;
        Ok(node(data, stat))
    }

    async fn read_and_watch(&self, path: &str) -> Outcome<(Node, Watch)> {
        let (_permit, link, _) = self.admit().await?;
        let (data, stat, watcher) = self.answer(&link, link.client.get_and_watch_data(path)).await?;
        Ok((node(data, stat), Watch::new(watcher, &link)))
    }

    async fn watch_end(&self, path: &str) -> Outcome<Watch> {
        let (_permit, link, _) = self.admit().await?;
        // A node of this kind has no children, so nothing but its end is seen, and no write to it.
        let (_, watcher) = self.answer(&link, link.client.list_and_watch_children(path)).await?;
        Ok(Watch::new(watcher, &link))
    }

    async fn sync(&self, path: &str) -> Outcome<()> {
        let (_permit, link, _) = self.admit().await?;
        Ok(self.answer(&link, link.client.sync(path)).await?)
    }

    async fn beat(&self, path: &str) -> Outcome<()> {
        let (_permit, link, sent) = self.admit().await?;
        let mut writer = link.client.new_multi_writer();
        writer.add_check_version(path, -1)?;
        let checked = async { writer.commit().await.map_err(ZkError::from) };
        self.written(&link, sent, checked).await.map(drop)
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.subscribe()
    }

    async fn drive(&self) -> End {
        let mut servers = self.dialer.as_ref().map(Dialer::servers);
        let end = loop {
            let link = self.link();
            self.condition
                .send_if_modified(|condition| std::mem::replace(condition, link.condition()) != *condition);
            let condition = tokio::select! {
                condition = link.changed() => condition,
                () = moved(&mut servers) => Condition::Disconnected,
                () = tokio::time::sleep(LOOK) => match link.silence(self.clock.now()) {
                    silence if silence >= SILENCE_MOST && self.dialer.is_some() => Condition::Disconnected,
                    _ => continue,
                },
            };
            match condition {
                Condition::Connected => {}
                Condition::Over(end) => break end,
                Condition::Disconnected => {
                    self.condition.send_replace(Condition::Disconnected);
                    let Some(dialer) = &self.dialer else { continue };
                    link.cut();
                    match self.redial(dialer).await {
                        Ok(link) => *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link.adopt(),
                        Err(end) => break end,
                    }
                }
            }
        };
        self.condition.send_replace(Condition::Over(end));
        end
    }
}

/// Resolves when other servers are to be used.
async fn moved(servers: &mut Option<watch::Receiver<Vec<String>>>) {
    match servers {
        // The sender lives as long as the dialer.
        Some(servers) => drop(servers.changed().await),
        None => std::future::pending().await,
    }
}

fn node(data: Vec<u8>, stat: Stat) -> Node {
    Node { data, version: stat.version, czxid: stat.czxid, mzxid: stat.mzxid, session: stat.ephemeral_owner }
}

fn unreadable() -> Failure {
    Failure::Unknown(Some(ZkError::UnexpectedError("the answer has other parts than the request".to_owned())))
}

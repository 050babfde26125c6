//! The connection that holds what sessions sleep on.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use distlock_core::{Backoff, Instant};
use sqlx::{AssertSqlSafe, MySql, MySqlConnection};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::session;
use crate::mysql::dialect::read;
use crate::server::{Line, Links, Plain, Row, Template, within};

/// The server ends the connection when it has heard nothing for so long.
const SILENCE_MOST: Duration = Duration::from_secs(60);
/// So often something is said.
const SAID_EVERY: Duration = Duration::from_secs(15);
/// For so long it stays when nobody sleeps any more.
const LINGER: Duration = Duration::from_secs(5);
/// How much is done in one statement.
const TOGETHER_MOST: usize = 64;

/// Holds locks that sessions wait for, on one connection of its own, and gives each back when its session is to wake.
///
/// This connection itself never waits for a lock, so there is no circle that the server could break.
pub(crate) struct Watching {
    pub(super) links: Arc<Links<MySql>>,
    /// What sessions do meanwhile.
    pub(super) slice: Template,
    /// No other client's locks have this in their names.
    client: u64,
    next: AtomicU64,
    state: Mutex<State>,
}

enum State {
    /// Nothing is held.
    Idle,
    Working(UnboundedSender<Wish>),
    Closed,
}

/// A lock that the connection holds. Dropping it gives the lock back.
pub(super) struct Hold {
    name: String,
    wishes: UnboundedSender<Wish>,
}

enum Wish {
    /// To hold this. The answer is whether it is.
    Hold(String, oneshot::Sender<bool>),
    Free(String),
    /// To run this statement. The answer is its first column.
    Ask(String, oneshot::Sender<Option<i64>>),
}

impl Watching {
    pub(super) fn new(links: Arc<Links<MySql>>, slice: Template) -> Self {
        let (client, next) = (fastrand::u64(..), AtomicU64::new(0));
        Self { links, slice, client, next, state: Mutex::new(State::Idle) }
    }

    /// A lock that nobody has had before; `None` if there is no connection for it.
    ///
    /// May be dropped at any point.
    pub(super) async fn hold(&self) -> Option<Hold> {
        // The task that holds them may just be about to end.
        for _ in 0..2 {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("distlock_wake_{:016x}_{number:x}", self.client);
            let hold = Hold { name: name.clone(), wishes: self.wishes()? };
            let (answer, answered) = oneshot::channel();
            let _ = hold.wishes.send(Wish::Hold(name, answer));
            if let Ok(is_held) = answered.await {
                return is_held.then_some(hold);
            }
        }
        None
    }

    /// The session that holds the lock of this name, 0 if there is none; `None` if the server does not say.
    pub(super) async fn holder(&self, name: &[u8]) -> Option<i64> {
        let (answer, answered) = oneshot::channel();
        self.wishes()?.send(Wish::Ask(session::holder(name), answer)).ok()?;
        answered.await.ok().flatten()
    }

    /// Nothing is held from now on; what is held will be until it is given back.
    pub(super) fn close(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Closed;
    }

    /// Where to send wishes. `None` after the close.
    fn wishes(&self) -> Option<UnboundedSender<Wish>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Working(wishes) if !wishes.is_closed() => return Some(wishes.clone()),
            State::Closed => return None,
            _ => {}
        }
        let (wishes, receiver) = unbounded_channel();
        #[expect(
            clippy::disallowed_methods,
            reason = "one task has the connection; it ends when nobody sleeps, and with the backend"
        )]
        tokio::spawn(Worker::new(Arc::clone(&self.links)).work(receiver));
        *state = State::Working(wishes.clone());
        Some(wishes)
    }
}

impl Hold {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.wishes.send(Wish::Free(std::mem::take(&mut self.name)));
    }
}

/// Has the connection.
struct Worker {
    links: Arc<Links<MySql>>,
    line: Option<Plain<MySqlConnection>>,
    held: HashSet<String>,
    pauses: Backoff,
    /// When it may be tried again to open one.
    retry: Option<Instant>,
}

impl Worker {
    fn new(links: Arc<Links<MySql>>) -> Self {
        let pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        Self { links, line: None, held: HashSet::new(), pauses, retry: None }
    }

    /// Carries out wishes until there have been none for a while, or nobody is left to have any.
    async fn work(mut self, mut wishes: UnboundedReceiver<Wish>) {
        loop {
            let patience = if self.held.is_empty() { LINGER } else { SAID_EVERY };
            let mut some = Vec::new();
            match within(patience, wishes.recv_many(&mut some, TOGETHER_MOST)).await {
                Some(0) => break,
                Some(_) => self.carry_out(some).await,
                None if self.held.is_empty() => break,
                None => drop(self.ask("SELECT 1").await),
            }
        }
        // What comes now is refused, and tried again with another one of these.
        drop(wishes);
        if let Some(line) = self.line {
            let _ = within(self.links.response_timeout(), Line::<MySql>::close(line)).await;
        }
    }

    async fn carry_out(&mut self, some: Vec<Wish>) {
        let (mut wanted, mut freed, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for wish in some {
            match wish {
                Wish::Hold(name, answer) => wanted.push((name, answer)),
                Wish::Free(name) if self.held.remove(&name) => freed.push(name),
                Wish::Free(name) => wanted.retain(|(other, _)| *other != name),
                Wish::Ask(text, answer) => asked.push((text, answer)),
            }
        }
        self.hold_and_free(wanted, freed).await;
        for (text, answer) in asked {
            let row = self.ask_twice(&text).await;
            let _ = answer.send(row.and_then(|row| row.int(0).ok()));
        }
    }

    async fn hold_and_free(&mut self, wanted: Vec<(String, oneshot::Sender<bool>)>, freed: Vec<String>) {
        let free = freed.iter().map(|name| format!("RELEASE_LOCK('{name}')"));
        let hold = wanted.iter().map(|(name, _)| format!("GET_LOCK('{name}', 0)"));
        let text = free.chain(hold).collect::<Vec<_>>().join(", ");
        if text.is_empty() {
            return;
        }
        let text = format!("SELECT {text}");
        let row = if wanted.is_empty() { self.ask(&text).await } else { self.ask_twice(&text).await };
        for (at, (name, answer)) in wanted.into_iter().enumerate() {
            let is_held = row.as_ref().is_some_and(|row| row.int(freed.len() + at).is_ok_and(|got| got == 1));
            if is_held {
                self.held.insert(name);
            }
            // Who does not want to know any more has sent another wish after this.
            let _ = answer.send(is_held);
        }
    }

    /// Once more if the connection had been closed while nothing was asked.
    async fn ask_twice(&mut self, text: &str) -> Option<Row> {
        let was_open = self.line.is_some();
        match self.ask(text).await {
            None if was_open => self.ask(text).await,
            row => row,
        }
    }

    /// Runs a statement. If that fails, the connection is gone, and with it all that it held.
    async fn ask(&mut self, text: &str) -> Option<Row> {
        self.open().await;
        let line = self.line.as_mut()?;
        self.links.count(1);
        let asked = async {
            let rows = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_all(&mut line.0).await?;
            rows.first().map(read).transpose()
        };
        let row = within(self.links.response_timeout(), asked).await.and_then(Result::ok).flatten();
        if row.is_none() {
            self.line = None;
            self.held.clear();
        }
        row
    }

    /// Opens the connection, if there is none, and none was refused a moment ago.
    async fn open(&mut self) {
        let now = self.links.clock.now();
        if self.line.is_some() || self.retry.is_some_and(|retry| now < retry) {
            return;
        }
        match self.links.open_beside(SILENCE_MOST).await {
            Ok(line) => {
                self.pauses.reset();
                self.line = Some(line);
            }
            Err(_) => self.retry = Some(self.links.clock.now().plus(self.pauses.pause())),
        }
    }
}

//! The connection that holds what sessions sleep on.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Backoff, Instant};
use sqlx::{AssertSqlSafe, MySql, MySqlConnection};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::watching::Wish;
use crate::mysql::dialect::read;
use crate::server::{Line, Links, Plain, Row, within};

/// The server ends the connection when it has heard nothing for so long.
const SILENCE_MOST: Duration = Duration::from_secs(60);
/// So often something is said.
const SAID_EVERY: Duration = Duration::from_secs(15);
/// For so long it stays when nobody sleeps any more.
const LINGER: Duration = Duration::from_secs(5);
/// How much is done in one statement.
const TOGETHER_MOST: usize = 64;

/// Has the connection, and remembers what it holds.
pub(super) struct Watcher {
    links: Arc<Links<MySql>>,
    line: Option<Plain<MySqlConnection>>,
    held: HashSet<String>,
    pauses: Backoff,
    /// When it may be tried again to open one.
    retry: Option<Instant>,
}

impl Watcher {
    pub(super) fn new(links: Arc<Links<MySql>>) -> Self {
        let pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        Self { links, line: None, held: HashSet::new(), pauses, retry: None }
    }

    /// Carries out wishes until there have been none for a while, or nobody is left to have any.
    pub(super) async fn work(mut self, mut wishes: UnboundedReceiver<Wish>) {
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
        let asked = async {
            let rows = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_all(&mut line.0).await?;
            rows.first().map(read).transpose()
        };
        let row = within(self.links.response_timeout(), asked).await.and_then(Result::ok).flatten();
        match row {
            Some(_) => self.links.count(1),
            None => {
                self.line = None;
                self.held.clear();
            }
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

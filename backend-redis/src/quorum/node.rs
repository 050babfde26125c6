//! One server of a quorum, and what is asked of it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use distlock_core::{Busy, Lease, LockKey, OwnerId, Result};
use redis::{Cmd, RedisWrite, Value};

use super::ballot::Vote;
use super::tally::{Extension, Freed, Passing};
use crate::RedisBackend;
use crate::config::{RedisConfig, Topology};
use crate::error::unreadable;
use crate::prepared::Prepared;
use crate::probe;
use crate::reply::{Granted, granted_parts, left_of, number, parts};
use crate::script::{self, By};

/// One server of a quorum.
#[derive(Debug)]
pub(super) struct Node {
    /// Its address, for messages.
    pub(super) name: String,
    pub(super) backend: RedisBackend,
    /// What it has to be fit for, if that was not looked at yet.
    config: Option<RedisConfig>,
    /// Whether it is known to be fit, and none of the others under another name.
    is_admitted: AtomicBool,
    /// Whether it was too slow the last time.
    is_slow: AtomicBool,
    /// How far its clock is ahead of this client's, in microseconds; the lowest number where that is not known.
    ahead: AtomicI64,
}

/// A node's vote, with what it told beside it.
#[derive(Debug)]
pub(super) enum Voted {
    Granted {
        token: u64,
        is_agreed: bool,
    },
    Busy {
        busy: Busy,
        token: u64,
        is_agreed: bool,
    },
    /// It may have forgotten who has the lock, for so long.
    HeldOff(Duration),
}

impl Voted {
    pub(super) fn vote(&self) -> Vote<OwnerId> {
        match self {
            Self::Granted { token, is_agreed } => Vote::Granted { token: *token, agreed: *is_agreed },
            Self::Busy { busy, is_agreed, .. } => {
                Vote::Busy { holder: busy.holder.as_ref().map(|holder| holder.owner), agreed: *is_agreed }
            }
            Self::HeldOff(_) => Vote::Silent,
        }
    }
}

impl Node {
    /// A server that was looked at already.
    pub(super) fn connected(name: String, backend: RedisBackend) -> Self {
        Self {
            name,
            backend,
            config: None,
            is_admitted: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            ahead: AtomicI64::new(i64::MIN),
        }
    }

    /// A server that may be down.
    pub(super) fn unconnected(config: RedisConfig) -> Result<Self> {
        let backend = RedisBackend::unconnected(&config)?;
        let name = config.servers.first().cloned().unwrap_or_default();
        Ok(Self {
            name,
            backend,
            config: Some(config),
            is_admitted: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            ahead: AtomicI64::new(i64::MIN),
        })
    }

    /// Whether it is one single server, each of whose grants counts at once.
    pub(super) fn is_plain(&self) -> bool {
        let info = RedisBackend::describe(&Topology::Single);
        self.backend.info == info && self.backend.store.wait_replicas == 0
    }

    /// Whether it was too slow the last time. Then nobody waits for its answer, which still counts if it
    /// comes in time.
    pub(super) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    /// It did not answer in time.
    pub(super) fn was_slow(&self) {
        self.is_slow.store(true, Ordering::Relaxed);
    }

    /// It answered.
    pub(super) fn answered(&self) {
        // Reading is cheaper than writing, and hardly any server is slow.
        if self.is_slow() {
            self.is_slow.store(false, Ordering::Relaxed);
        }
    }

    async fn run(&self, prepared: &Prepared) -> Result<Value> {
        let answer = self.backend.store.run_prepared(prepared).await?;
        self.answered();
        Ok(answer)
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.is_admitted.load(Ordering::Acquire)
    }

    pub(super) fn admit(&self) {
        self.is_admitted.store(true, Ordering::Release);
    }

    /// Whether the server is fit, and which one it is.
    pub(super) async fn identify(&self) -> Result<String> {
        if let Some(config) = &self.config {
            probe::refuse_unfit(&self.backend.store, config).await?;
        }
        let (store, server) = (&self.backend.store, crate::connection::Node::default());
        let sent = store.clock.now();
        self.note_time(store.server_time(&server).await?, sent.as_nanos() / 1000);
        probe::run_id(store).await
    }

    /// Grants the lock to the claim, or says who has it. A repeat restarts the expiry.
    pub(super) async fn vote(&self, vote: &Prepared) -> Result<Voted> {
        voted(parts(&self.run(vote).await?)?)
    }

    /// Whether it took over the token.
    pub(super) async fn confirm(&self, confirm: &Prepared) -> Result<bool> {
        Ok(number(&self.run(confirm).await?)? == 1)
    }

    /// What its clock shows, as far as it told, when the client's shows so many microseconds.
    pub(super) fn time(&self, micros: u64) -> Option<u64> {
        let ahead = Some(self.ahead.load(Ordering::Relaxed)).filter(|ahead| *ahead != i64::MIN)?;
        micros.checked_add_signed(ahead)
    }

    fn note_time(&self, time: u64, sent: u64) {
        self.ahead.store(time.cast_signed().wrapping_sub(sent.cast_signed()), Ordering::Relaxed);
    }

    /// Passes a lease on. `sent`: the client's clock by then, in microseconds.
    pub(super) async fn pass(&self, pass: &Prepared, sent: u64) -> Result<Passing> {
        let (passing, time) = passing(parts(&self.run(pass).await?)?)?;
        self.note_time(time, sent);
        Ok(passing)
    }

    /// Takes an attempt back.
    pub(super) async fn withdraw(&self, withdraw: &Prepared) -> Result<()> {
        number(&self.run(withdraw).await?).map(drop)
    }

    /// Frees the lock if the claim holds it here.
    pub(super) async fn release(&self, release: &Prepared) -> Result<Freed> {
        match number(&self.run(release).await?)? {
            0 => Ok(Freed::Missing),
            1 => Ok(Freed::Released),
            2 => Ok(Freed::Foreign),
            _ => unreadable(),
        }
    }

    /// Prolongs leases, and puts back what the node forgot if asked to; the answers stand in the leases' order.
    pub(super) async fn extend(
        &self,
        leases: &[Lease],
        ttl: Duration,
        puts_back: bool,
        hold_off: Duration,
    ) -> Result<Vec<Extension>> {
        let Some(first) = leases.first() else { return Ok(Vec::new()) };
        let store = &self.backend.store;
        let first = store.names.record(&first.claim.key);
        let command = |by| self.extension(by, leases, ttl, puts_back, hold_off);
        let answer = store.run_command(Some(&first), command).await?;
        self.answered();
        let codes = parts(&answer.value)?;
        if codes.len() != leases.len() {
            return unreadable();
        }
        codes.iter().map(extension).collect()
    }

    fn extension(&self, by: By, leases: &[Lease], ttl: Duration, puts_back: bool, hold_off: Duration) -> Cmd {
        /// Owner, token, and what stands before the key in a record's name.
        const EACH: usize = 32 + 20 + 32;
        let names = &self.backend.store.names;
        let keys: usize = leases.iter().map(|lease| lease.claim.key.as_bytes().len()).sum();
        let (count, size) = (leases.len(), keys + EACH * leases.len());
        let mut command = script::EXTEND.begin(by, count + 1, 3 + 2 * count, size);
        let mut record = Vec::new();
        for lease in leases {
            names.write_record(&lease.claim.key, &mut record);
            command.write_arg(&record);
        }
        command.write_arg(&names.birth());
        command.write_arg_fmt(ttl.as_micros());
        command.write_arg(if puts_back { b"1" } else { b"0" });
        command.write_arg_fmt(hold_off.as_micros());
        for lease in leases {
            command.write_arg_fmt(lease.claim.owner);
            command.write_arg_fmt(lease.token);
        }
        command
    }

    /// Keeps a lock that was taken away from being put back with this token.
    pub(super) async fn raise(&self, key: &LockKey, token: u64) -> Result<()> {
        let token = token.to_string();
        let record = self.backend.store.names.record(key);
        let raise = Prepared::new(&script::RAISE, &[record], &[token.as_bytes()]);
        number(&self.run(&raise).await?).map(drop)
    }
}

pub(super) fn voted(answer: &[Value]) -> Result<Voted> {
    match answer {
        [Value::Int(4), left] => Ok(Voted::HeldOff(left_of(left)?)),
        [rest @ .., Value::Int(agreed)] if matches!(rest, [Value::Int(0 | 1), ..]) => {
            let is_agreed = *agreed == 1;
            Ok(match granted_parts(rest)? {
                Granted::Token(token) => Voted::Granted { token: token.get(), is_agreed },
                Granted::Busy(busy, token) => Voted::Busy { busy, token, is_agreed },
            })
        }
        other => match granted_parts(other)? {
            Granted::Busy(busy, token) => Ok(Voted::Busy { busy, token, is_agreed: false }),
            Granted::Token(_) => unreadable(),
        },
    }
}

/// What became of the passing, and what the node's clock showed.
pub(super) fn passing(answer: &[Value]) -> Result<(Passing, u64)> {
    let [Value::Int(code), Value::Int(time)] = answer else { return unreadable() };
    let passing = match code {
        1 => Passing::Passed,
        0 => Passing::Missing,
        2 => Passing::Foreign,
        3 => Passing::Behind,
        // Damaged: nobody can tell.
        -1 => Passing::Silent,
        _ => return unreadable(),
    };
    Ok((passing, time.cast_unsigned()))
}

pub(super) fn extension(code: &Value) -> Result<Extension> {
    match code {
        Value::Int(1) => Ok(Extension::Extended),
        Value::Int(0) => Ok(Extension::Gone),
        Value::Int(2) => Ok(Extension::Foreign),
        Value::Int(3) => Ok(Extension::Forgotten),
        // Damaged: nobody can tell.
        Value::Int(-1) => Ok(Extension::Silent),
        _ => unreadable(),
    }
}

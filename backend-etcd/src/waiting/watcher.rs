//! The task that watches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use distlock_core::Backoff;
use etcd_client::{EventType, WatchFilterType, WatchOptions, WatchResponse, WatchStream};

use super::Waiting;
use crate::error::Failure;

/// A watch that said nothing for this long is asked for a sign of life.
const ASK_AFTER: Duration = Duration::from_secs(1);
/// One that goes on saying nothing for as many such times is given up.
const UNANSWERED: u32 = 2;
/// After this long with nobody waiting, the watch ends.
const IDLE: Duration = Duration::from_secs(60);

/// How a watch ended.
enum Ended {
    /// Nobody needs it any more.
    Unneeded,
    /// It broke, and goes on elsewhere.
    Broken,
    /// What happened in between is not to be had any more.
    Compacted,
    /// Another choice of events is needed from now on.
    Outgrown,
}

/// A watch that is open: all up to and including `seen` was heard.
struct Watch {
    stream: WatchStream,
    member: usize,
    seen: i64,
}

/// Watches until nobody has waited for a while, or the backend is closed.
pub(super) async fn run(waiting: &Arc<Waiting>) {
    let mut pause = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));
    let mut seen = None;
    while !waiting.waiters.is_closed() {
        if let Ok(mut watch) = open(waiting, seen).await {
            if seen.is_none() {
                waiting.begins(watch.seen);
            }
            let ended = serve(waiting, &mut watch).await;
            seen = Some(watch.seen);
            match ended {
                Ended::Unneeded => return,
                Ended::Compacted => {
                    waiting.ends();
                    seen = None;
                }
                Ended::Broken => waiting.store.link.failed(watch.member),
                Ended::Outgrown => continue,
            }
            pause.reset();
        }
        tokio::select! {
            () = tokio::time::sleep(pause.pause()) => {}
            () = waiting.attention.notified() => {}
        }
        if waiting.is_idle() {
            return;
        }
    }
}

/// Opens a watch from now on, or from where the last one broke off.
async fn open(waiting: &Waiting, seen: Option<i64>) -> Result<Watch, Failure> {
    let store = &waiting.store;
    store.link.count();
    // Every lock that anybody takes is a write, so these are only asked for where a record is counted by them.
    let hears_writes = store.silences.is_counting();
    waiting.hears_writes.store(hears_writes, Ordering::Release);
    let open = |client: &etcd_client::Client| {
        let mut watches = client.watch_client();
        let mut options = WatchOptions::new().with_prefix();
        if !hears_writes {
            options = options.with_filters([WatchFilterType::NoPut]);
        }
        if let Some(seen) = seen {
            options = options.with_start_revision(seen + 1);
        }
        let prefix = store.names.prefix().to_vec();
        async move {
            let mut stream = watches.watch(prefix, Some(options)).await?;
            let first = stream.message().await?;
            Ok((stream, first))
        }
    };
    let ((stream, first), member) = store.link.open(open).await?;
    let created =
        first.filter(|message| message.created() && !message.canceled()).ok_or_else(Failure::ended)?;
    let revision = created.header().map_or(0, etcd_client::ResponseHeader::revision);
    Ok(Watch { stream, member, seen: seen.unwrap_or(revision) })
}

/// Stays with one watch until it ends.
async fn serve(waiting: &Arc<Waiting>, watch: &mut Watch) -> Ended {
    let (mut unanswered, mut idle) = (0, Duration::ZERO);
    loop {
        tokio::select! {
            message = watch.stream.message() => match message {
                Ok(Some(message)) => {
                    unanswered = 0;
                    if message.canceled() {
                        return if message.compact_revision() > 0 { Ended::Compacted } else { Ended::Broken };
                    }
                    hear(waiting, watch, &message);
                }
                Ok(None) | Err(_) => return Ended::Broken,
            },
            () = tokio::time::sleep(ASK_AFTER) => {
                idle = if waiting.waiters.take_new() || !waiting.waiters.is_empty() {
                    Duration::ZERO
                } else {
                    idle + ASK_AFTER
                };
                if idle >= IDLE {
                    return Ended::Unneeded;
                }
                unanswered += 1;
                if unanswered > UNANSWERED || watch.stream.request_progress().await.is_err() {
                    return Ended::Broken;
                }
            }
            () = waiting.attention.notified() => {}
        }
        if waiting.waiters.is_closed() {
            return Ended::Unneeded;
        }
        if waiting.needs_writes() {
            return Ended::Outgrown;
        }
    }
}

fn hear(waiting: &Waiting, watch: &mut Watch, message: &WatchResponse) {
    let store = &waiting.store;
    let now = store.clock.now();
    for event in message.events() {
        let Some(record) = event.kv() else { continue };
        let revision = record.mod_revision();
        // A sign of life without events may name a revision whose events are still to come.
        watch.seen = watch.seen.max(revision);
        let Some((key, owner)) = store.names.read(record.key()) else { continue };
        match event.event_type() {
            EventType::Put => store.silences.written(&key, record.key(), revision, now),
            EventType::Delete => {
                store.silences.deleted(&key, record.key());
                waiting.deleted(&key, owner, revision);
            }
        }
    }
}

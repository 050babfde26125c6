//! One way of one connection.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::settings::{Flow, Settings, Shared, Way};

/// How much one connection may have under way in one direction.
const CAPACITY: usize = 1 << 20;

/// Why a pump stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The sender closed, and the receiver was told.
    Closed,
    /// The whole connection is to be closed, since what went before is lost anyway.
    Broken,
    /// The connection is to be reset.
    Cut,
}

/// Carries bytes from one socket to the other as the settings say.
pub(super) struct Pump<'a> {
    pub(super) way: Way,
    /// The connection's number.
    pub(super) number: u64,
    pub(super) shared: &'a Shared,
    pub(super) settings: watch::Receiver<Settings>,
    /// A request of this connection has been forwarded whose answer is to be lost.
    pub(super) losing: &'a AtomicBool,
    /// Decides the jitter.
    pub(super) rng: fastrand::Rng,
}

/// What was read and is not delivered yet.
#[derive(Default)]
struct UnderWay {
    /// Nothing stands for the sender's end.
    pieces: VecDeque<(Instant, Option<Vec<u8>>)>,
    bytes: usize,
}

impl UnderWay {
    fn push(&mut self, due: Instant, piece: Option<Vec<u8>>) {
        // Jitter must not change the order.
        let due = self.pieces.back().map_or(due, |(last, _)| due.max(*last));
        self.bytes += piece.as_ref().map_or(0, Vec::len);
        self.pieces.push_back((due, piece));
    }

    fn pop(&mut self) -> Option<Option<Vec<u8>>> {
        let (_, piece) = self.pieces.pop_front()?;
        self.bytes -= piece.as_ref().map_or(0, Vec::len);
        Some(piece)
    }

    fn due(&self) -> Option<Instant> {
        self.pieces.front().map(|(due, _)| *due)
    }
}

impl Pump<'_> {
    pub(super) async fn run(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<End> {
        let mut buffer = vec![0; 16 * 1024];
        let mut under_way = UnderWay::default();
        let (mut ended, mut damaged) = (false, false);
        let mut cut: Option<(u64, u64)> = None;
        loop {
            let lane = self.settings.borrow_and_update().lane(self.way);
            if lane.cut.map(|(_, order)| order) != cut.map(|(_, order)| order) {
                cut = lane.cut;
            }
            let silent = lane.flow == Flow::Silent;
            damaged |= silent && !under_way.pieces.is_empty();
            if silent || damaged {
                under_way = UnderWay::default();
            }
            if damaged && ended && !silent {
                return Ok(End::Broken);
            }
            let due = under_way.due().filter(|_| lane.flow == Flow::Passing);
            tokio::select! {
                biased;
                changed = self.settings.changed() => {
                    if changed.is_err() {
                        return Ok(End::Cut);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    match under_way.pop().flatten() {
                        Some(piece) => {
                            if self.deliver(&piece, &mut to, &mut cut).await? == Some(End::Cut) {
                                return Ok(End::Cut);
                            }
                        }
                        None => {
                            to.shutdown().await?;
                            return Ok(End::Closed);
                        }
                    }
                }
                read = from.read(&mut buffer), if !ended && under_way.bytes < CAPACITY => {
                    let read = read?;
                    ended = read == 0;
                    if silent || damaged {
                        damaged = true;
                        continue;
                    }
                    let piece = buffer[..read].to_vec();
                    if lane.flow == Flow::Held && self.way == Way::ToServer && !ended {
                        self.shared.note_held(&piece);
                    }
                    let due = Instant::now() + lane.delay + lane.jitter.mul_f64(self.rng.f64());
                    under_way.push(due, (!ended).then_some(piece));
                }
            }
        }
    }

    async fn deliver(
        &self,
        piece: &[u8],
        to: &mut WriteHalf<'_>,
        cut: &mut Option<(u64, u64)>,
    ) -> io::Result<Option<End>> {
        match self.way {
            Way::ToServer if self.shared.disarm(self.number) => self.losing.store(true, Ordering::Relaxed),
            Way::ToClient if self.losing.load(Ordering::Relaxed) => {
                self.shared.count(|traffic| traffic.lost_replies += 1);
                return Ok(Some(End::Cut));
            }
            _ => {}
        }
        let allowed = cut.map_or(piece.len(), |(left, _)| {
            usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()))
        });
        to.write_all(&piece[..allowed]).await?;
        let written = allowed as u64;
        self.shared.count(|traffic| match self.way {
            Way::ToServer => traffic.to_server += written,
            Way::ToClient => traffic.to_client += written,
        });
        if let Some((left, _)) = cut {
            *left -= written;
            // The last byte allowed must arrive; a cut after none comes with the first byte.
            if *left == 0 {
                return Ok(Some(End::Cut));
            }
        }
        Ok(None)
    }
}

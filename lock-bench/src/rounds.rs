//! Rounds through the client and rounds of bare statements, in turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{LockClient, Result};

use crate::floor::{Bare, BareTally, Floor};
use crate::machine::cpu_time;
use crate::options::Params;
use crate::pairs::{Pairs, Tally};

/// What all rounds together gave.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) tally: Tally,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    pub(crate) commands: Option<u64>,
    pub(crate) floor: Option<MeasuredFloor>,
}

/// What the bare statements gave.
#[derive(Debug)]
pub(crate) struct MeasuredFloor {
    pub(crate) tally: BareTally,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
}

/// Time before measuring in which caches fill and connections open.
pub(crate) fn warm_up(params: &Params) -> Duration {
    (params.duration / 10).clamp(Duration::from_millis(20), Duration::from_secs(1))
}

/// Measures for the whole duration in one round.
pub(crate) async fn measure(client: &LockClient, pairs: &Arc<Pairs>, params: &Params) -> Result<Measured> {
    pairs.round(warm_up(params)).await?;
    let mut measured = Measured::new(params);
    measured.round(client, pairs, params.duration).await?;
    Ok(measured)
}

/// Measures in short rounds with one of the floor after each, so that what else the machine does
/// hits both alike.
pub(crate) async fn measure_beside<F: Floor>(
    client: &LockClient,
    pairs: &Arc<Pairs>,
    floor: &Bare<F>,
    params: &Params,
) -> Result<Measured> {
    pairs.round(warm_up(params)).await?;
    floor.round(warm_up(params)).await?;
    let length = (params.duration / 50).max((params.hold + params.think) * 4).max(Duration::from_millis(10));
    let mut measured = Measured::new(params);
    let mut bare = MeasuredFloor { tally: BareTally::new(), elapsed: Duration::ZERO, cpu: Duration::ZERO };
    while measured.elapsed < params.duration {
        measured.round(client, pairs, length).await?;
        let (started, cpu) = (Instant::now(), cpu_time());
        bare.tally.add(&floor.round(length).await?);
        bare.elapsed += started.elapsed();
        bare.cpu += cpu_time().saturating_sub(cpu);
    }
    measured.floor = Some(bare);
    Ok(measured)
}

impl Measured {
    fn new(params: &Params) -> Self {
        Self {
            tally: Tally::new(params.contenders),
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            commands: None,
            floor: None,
        }
    }

    async fn round(&mut self, client: &LockClient, pairs: &Arc<Pairs>, length: Duration) -> Result<()> {
        let (started, cpu, commands) = (Instant::now(), cpu_time(), client.backend().commands_sent());
        self.tally.add(&pairs.round(length).await?);
        self.elapsed += started.elapsed();
        self.cpu += cpu_time().saturating_sub(cpu);
        if let (Some(before), Some(after)) = (commands, client.backend().commands_sent()) {
            *self.commands.get_or_insert(0) += after - before;
        }
        Ok(())
    }
}

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
    pub(crate) spent: Spent,
    pub(crate) cpu: CpuFor,
    /// What the bare statements gave.
    pub(crate) floor: Option<(BareTally, Spent)>,
}

/// What rounds took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    pub(crate) commands: Option<u64>,
}

/// CPU time for so many operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuFor {
    pub(crate) operations: u64,
    pub(crate) cpu: Duration,
}

/// Time before measuring in which caches fill and connections open.
pub(crate) fn warm_up(params: &Params) -> Duration {
    (params.duration / 10).clamp(Duration::from_millis(20), Duration::from_secs(1))
}

/// Measures for the whole duration in one round.
pub(crate) async fn measure(client: &LockClient, pairs: &Arc<Pairs>, params: &Params) -> Result<Measured> {
    pairs.round(warm_up(params)).await?;
    pairs.take();
    let mut spent = Spent::default();
    spent.round(client, pairs, params.duration).await?;
    let cpu = plain_cpu(pairs, params, &spent).await?;
    Ok(Measured { tally: pairs.take(), spent, cpu, floor: None })
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
    pairs.take();
    floor.take();
    let length = (params.duration / 50).max((params.hold + params.think) * 4).max(Duration::from_millis(10));
    let (mut spent, mut bare) = (Spent::default(), Spent::default());
    while spent.elapsed < params.duration {
        spent.round(client, pairs, length).await?;
        let (started, cpu) = (Instant::now(), cpu_time());
        floor.round(length).await?;
        bare.elapsed += started.elapsed();
        bare.cpu += cpu_time().saturating_sub(cpu);
    }
    let cpu = plain_cpu(pairs, params, &spent).await?;
    Ok(Measured { tally: pairs.take(), spent, cpu, floor: Some((floor.take(), bare)) })
}

/// CPU time of the measured pairs. Of a single contender it is taken again without the measuring,
/// which would be a good part of it.
async fn plain_cpu(pairs: &Arc<Pairs>, params: &Params, spent: &Spent) -> Result<CpuFor> {
    let operations = pairs.operations();
    if params.contenders > 1 || !params.hold.is_zero() || !params.think.is_zero() {
        return Ok(CpuFor { operations, cpu: spent.cpu });
    }
    let operations = (operations / 5).max(1);
    let before = cpu_time();
    pairs.plainly(operations).await?;
    Ok(CpuFor { operations, cpu: cpu_time().saturating_sub(before) })
}

impl Spent {
    async fn round(&mut self, client: &LockClient, pairs: &Arc<Pairs>, length: Duration) -> Result<()> {
        let (started, cpu, commands) = (Instant::now(), cpu_time(), client.backend().commands_sent());
        pairs.round(length).await?;
        self.elapsed += started.elapsed();
        self.cpu += cpu_time().saturating_sub(cpu);
        if let (Some(before), Some(after)) = (commands, client.backend().commands_sent()) {
            *self.commands.get_or_insert(0) += after - before;
        }
        Ok(())
    }
}

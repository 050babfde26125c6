//! Rounds through the client and rounds of bare statements, in turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{LockClient, Result};

use crate::floor::{BareTally, Beside};
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
    /// What the store's own locks gave.
    pub(crate) peer: Option<(BareTally, Spent)>,
}

/// What rounds took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    pub(crate) commands: Option<u64>,
}

/// The peer's rounds are longer than the floor's: in each, its contenders have to queue anew.
const TURNS: u32 = 5;

/// A turn beside the floor is as long as so many pairs, or longer.
const PAIRS_PER_TURN: u32 = 20;

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

/// What is measured beside the client's own pairs.
#[derive(Default)]
pub(crate) struct Others {
    pub(crate) floor: Option<Box<dyn Beside>>,
    pub(crate) peer: Option<Box<dyn Beside>>,
}

/// Measures in rounds with one of the others after each, so that what else the machine does hits all alike;
/// without others in one round.
pub(crate) async fn measure(
    client: &LockClient,
    pairs: &Arc<Pairs>,
    params: &Params,
    others: &Others,
) -> Result<Measured> {
    let Others { floor, peer } = others;
    pairs.round(warm_up(params)).await?;
    let mut pair = pairs.take().latency.micros(0.5);
    for other in [floor, peer].into_iter().flatten() {
        other.round(warm_up(params)).await?;
        pair = pair.max(other.take().latency.micros(0.5));
    }
    let pair = Duration::from_secs_f64(pair / 1e6);
    let turn = params.duration / TURNS;
    let length = match (floor, peer) {
        (Some(_), _) => round(params, pair),
        (None, Some(_)) => turn,
        (None, None) => params.duration,
    };
    let (mut spent, mut bare, mut theirs) = (Spent::default(), Spent::default(), Spent::default());
    let mut next = turn;
    while spent.elapsed < params.duration {
        spent.round(client, pairs, length).await?;
        if let Some(floor) = floor {
            bare.beside(&**floor, length).await?;
        }
        if let Some(peer) = peer.as_ref().filter(|_| spent.elapsed >= next) {
            theirs.beside(&**peer, turn).await?;
            next += turn;
        }
    }
    let cpu = plain_cpu(pairs, params, &spent).await?;
    let floor = floor.as_ref().map(|floor| (floor.take(), bare));
    let peer = peer.as_ref().map(|peer| (peer.take(), theirs));
    Ok(Measured { tally: pairs.take(), spent, cpu, floor, peer })
}

/// How long a round beside the floor is. What the machine does changes within milliseconds, so a single
/// contender takes very short turns with the floor. Contenders beside others need time to meet; and on a slow store,
/// where a `pair` took longer in the warm-up, all need time for more than a few, of which the last one runs over. A
/// quarter of the time is the most, so that there are turns.
fn round(params: &Params, pair: Duration) -> Duration {
    let (part, least) = if params.contenders == 1 { (1000, 5) } else { (50, 10) };
    let length =
        (params.duration / part).max((params.hold + params.think) * 4).max(Duration::from_millis(least));
    length.max((pair * PAIRS_PER_TURN).min(params.duration / 4))
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
    async fn beside(&mut self, other: &dyn Beside, length: Duration) -> Result<()> {
        let (started, cpu) = (Instant::now(), cpu_time());
        other.round(length).await?;
        self.elapsed += started.elapsed();
        self.cpu += cpu_time().saturating_sub(cpu);
        Ok(())
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::BenchOptions;
    use crate::scenario::Scenario;

    #[test]
    fn a_turn_has_time_for_some_pairs_and_leaves_time_for_turns() {
        let params =
            BenchOptions::new(Scenario::Uncontended).duration(Duration::from_secs(1)).params().unwrap();
        for (pair_us, millis) in [(50, 5), (1000, 20), (3000, 60), (90_000, 250)] {
            assert_eq!(round(&params, Duration::from_micros(pair_us)), Duration::from_millis(millis));
        }
    }
}

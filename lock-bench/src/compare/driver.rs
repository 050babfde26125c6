//! Runs a comparison from its stores to its figures.

use std::collections::HashMap;
use std::time::Duration;

use distlock::{ErrorKind, Exclusion, Fairness, Registry, Result, StoreUrl};

use super::cell::Rounds;
use super::comparison::{Comparison, Gap, StoreSeen};
use super::conditions::Conditions;
use super::contest::Contest;
use super::failover::failover;
use super::goals::has_goal_for_held;
use super::lookout::{Lookout, ThisMachine};
use super::member::member;
use super::options::{CompareOptions, Progress, StoreToCompare};
use super::peers::{KNOWN, PeerOrder, Peers};
use super::recovery::recovery;
use crate::floor::BareTally;
use crate::run::{floor_alone, floor_is_known, run};

/// Measures all stores in all contests, and says how far it has come.
///
/// The rounds of a contest take turns: each store once, then each once more, beginning with another one. What the
/// machine is like is looked at around each: it waits for a quiet machine, and measures a noisy round again, while
/// [`CompareOptions::patience`] lasts. A store that can't take part in a contest, or fails in it, leaves a
/// gap in the report; the others go on.
///
/// # Errors
/// `InvalidOptions` before any I/O; and what keeps a store from being reached at all.
///
/// # Cancel safety
/// May be dropped at any point, as [`run`](fn@crate::run). A server that was killed for a failover stays down then.
pub async fn compare(
    registry: &Registry,
    options: &CompareOptions,
    progress: &(dyn Fn(Progress<'_>) + Send + Sync),
) -> Result<Comparison> {
    options.check()?;
    let mut stores = Vec::new();
    for store in &options.stores {
        stores.push(Entrant::meet(registry, store).await?);
    }
    let mut driver = Driver {
        registry,
        options,
        peers: None,
        rounds: HashMap::new(),
        round: HashMap::new(),
        gaps: Vec::new(),
    };
    driver.invite_peers().await;
    let steps = options.contests.iter().map(|contest| contest.rounds(options.rounds) * stores.len()).sum();
    progress(Progress::Begins { steps });
    let mut lookout = Lookout::new(ThisMachine, options.patience).await?;
    for contest in &options.contests {
        for round in 0..contest.rounds(options.rounds) {
            let mut is_new = true;
            loop {
                lookout.before().await?;
                for n in 0..stores.len() {
                    let store = &stores[(n + round) % stores.len()];
                    if is_new {
                        progress(Progress::Step { contest: *contest, store: &store.seen.label });
                    }
                    driver.turn(store, *contest, round).await;
                }
                is_new = false;
                let is_noisy = lookout.after(*contest, round).await?;
                driver.keep(!is_noisy);
                if !is_noisy {
                    break;
                }
            }
        }
    }
    progress(Progress::Done);
    Ok(driver.comparison(stores, lookout.conditions()))
}

/// A store, and what must be known of it.
struct Entrant {
    seen: StoreSeen,
    url: String,
    scheme: String,
    has_floor: bool,
    may_overlap: bool,
    held_most: Option<u32>,
}

impl Entrant {
    async fn meet(registry: &Registry, store: &StoreToCompare) -> Result<Self> {
        let parsed = StoreUrl::parse(&store.url)?;
        let client = registry.connect(&store.url).await?;
        let version = client.probe().await?.version;
        let (info, promised) = (client.info(), &client.info().guarantees);
        let seen = StoreSeen {
            label: store.label.clone(),
            backend: info.name.to_owned(),
            version,
            shared: info.supports.processes,
            exclusion: promised.exclusion.describe().to_owned(),
            fifo: promised.fairness == Fairness::Fifo,
            pushes: info.supports.push,
            survives_restart: promised.survives_restart,
            survives_failover: promised.survives_failover,
        };
        let (may_overlap, held_most) = (promised.exclusion < Exclusion::Always, promised.held_most);
        client.shutdown(Duration::from_secs(5)).await;
        let has_floor = floor_is_known(&parsed);
        Ok(Self { seen, url: store.url.clone(), scheme: parsed.scheme, has_floor, may_overlap, held_most })
    }
}

struct Driver<'a> {
    registry: &'a Registry,
    options: &'a CompareOptions,
    peers: Option<Peers>,
    rounds: HashMap<(String, Contest), Rounds>,
    /// What the running round has given so far.
    round: HashMap<(String, Contest), Rounds>,
    gaps: Vec<Gap>,
}

impl Driver<'_> {
    async fn invite_peers(&mut self) {
        match &self.options.peers {
            None => {}
            Some(program) => match Peers::start(program).await {
                Ok(peers) => self.peers = Some(peers),
                Err(error) => self.gaps.push(Gap::new("all peers", error.to_string(), true)),
            },
        }
        let there = self.peers.as_ref().map_or(&[][..], |peers| &peers.there);
        let missing = KNOWN.iter().filter(|(name, _)| !there.iter().any(|peer| peer.name == *name));
        let missing: Vec<_> = missing.map(|(name, _)| format!("the peer {name}")).collect();
        for what in missing {
            self.gaps.push(Gap::new(
                what,
                "the program of the peers was built without it, or not named",
                false,
            ));
        }
    }

    /// One round of a contest on a store. After trouble there is none.
    async fn turn(&mut self, store: &Entrant, contest: Contest, round: usize) {
        let what = format!("{} on {}", contest, store.seen.label);
        if self.gaps.iter().any(|gap| gap.what == what) {
            return;
        }
        if let Some(why) = self.hindrance(store, contest) {
            self.gaps.extend(why.map(|why| Gap::new(what, why, false)));
            return;
        }
        let mut rounds = Rounds::default();
        // A failover needs those that are left.
        let url = if contest == Contest::Failover { store.url.clone() } else { member(&store.url, round) };
        match self.measure(store, &url, contest, &mut rounds).await {
            Ok(()) => self.peers_turn(store, &url, contest, &mut rounds).await,
            Err(error) => {
                let failed = error.kind() != ErrorKind::Unsupported;
                self.gaps.push(Gap::new(what, error.to_string(), failed));
            }
        }
        self.round.insert((store.seen.label.clone(), contest), rounds);
    }

    /// Adds the running round to those before, or leaves it out but for the promises that were broken in it.
    fn keep(&mut self, counts: bool) {
        for (what, round) in self.round.drain() {
            self.rounds.entry(what).or_default().add(round, counts);
        }
    }

    /// Whether the store can't take part, and why if that is worth a line.
    fn hindrance(&self, store: &Entrant, contest: Contest) -> Option<Option<String>> {
        let locks: u32 = match contest {
            Contest::Held1k => 1000,
            Contest::Held10k => 10_000,
            _ => 0,
        };
        if store.held_most.is_some_and(|most| most < locks) {
            return Some(Some(format!("a client holds at most {} locks", store.held_most.unwrap_or(0))));
        }
        let needs_processes = matches!(contest, Contest::Processes | Contest::Crash);
        if needs_processes && !store.seen.shared {
            return Some(Some("it lives in one process".to_owned()));
        }
        (contest == Contest::Failover && !self.options.failovers.contains(&store.seen.label)).then_some(None)
    }

    async fn measure(&self, store: &Entrant, url: &str, contest: Contest, rounds: &mut Rounds) -> Result<()> {
        match (contest, &self.options.breaker) {
            (Contest::Crash, _) => {
                let recovery = recovery(self.registry, url).await?;
                rounds.gaps_ms.push(recovery.gap.as_secs_f64() * 1e3);
                rounds.violations += recovery.violations;
            }
            (Contest::Failover, Some(breaker)) => {
                let outage = failover(self.registry, url, breaker, &store.seen.label).await?;
                rounds.gaps_ms.push(outage.gap.as_secs_f64() * 1e3);
                rounds.violations += outage.violations;
            }
            _ => {
                let has_goal = has_goal_for_held(&store.seen.backend);
                let Some(mut options) = contest.options(self.options.length, has_goal) else { return Ok(()) };
                options.floor = store.has_floor && contest.tasks().is_some();
                let is_beside = store.has_floor && contest == Contest::Processes;
                let before = if is_beside { Some(self.floor_slice(url).await?) } else { None };
                let mut figures = run(self.registry, url, &options).await?;
                if let Some((mut bare, elapsed)) = before {
                    let (after, longer) = self.floor_slice(url).await?;
                    bare.add(&after);
                    figures.floor_beside(&bare, elapsed + longer);
                }
                rounds.figures.push(figures);
            }
        }
        Ok(())
    }

    /// A short look at the floor of a free lock, beside what has no floor in turn with it.
    async fn floor_slice(&self, url: &str) -> Result<(BareTally, Duration)> {
        floor_alone(url, self.options.length / 2).await
    }

    async fn peers_turn(&mut self, store: &Entrant, url: &str, contest: Contest, rounds: &mut Rounds) {
        let (Some(peers), Some((contenders, one_key))) = (&mut self.peers, contest.tasks()) else { return };
        let names = peers.there.iter().filter(|peer| peer.is_for(&store.scheme));
        let names: Vec<_> = names.map(|peer| peer.name.clone()).collect();
        let millis = u64::try_from(self.options.length.as_millis()).unwrap_or(u64::MAX);
        for name in names {
            let what = format!("the peer {name}: {contest} on {}", store.seen.label);
            if self.gaps.iter().any(|gap| gap.what == what) {
                continue;
            }
            let url = url.split('?').next().unwrap_or_default().to_owned();
            let order = PeerOrder { name: name.clone(), url, contenders, one_key, millis };
            match peers.round(&order).await {
                Ok(round) if round.error.is_none() => rounds.note_peer(&name, round),
                Ok(round) => self.gaps.push(Gap::new(what, round.error.unwrap_or_default(), false)),
                Err(error) => {
                    // Its answer may come later, and would be taken for that of the next order.
                    self.peers = None;
                    self.gaps.push(Gap::new(what, format!("{error}; no peer was asked again"), true));
                    return;
                }
            }
        }
    }

    fn comparison(mut self, stores: Vec<Entrant>, conditions: Conditions) -> Comparison {
        let contests = &self.options.contests;
        let mut cells = Vec::new();
        for store in &stores {
            for contest in contests {
                let label = &store.seen.label;
                let Some(rounds) = self.rounds.remove(&(label.clone(), *contest)) else { continue };
                if !rounds.is_empty() {
                    let may_violate = *contest == Contest::Failover && store.may_overlap;
                    cells.push(rounds.cell(label, *contest, may_violate));
                }
            }
        }
        for store in stores.iter().filter(|store| !store.has_floor) {
            let why = "its bare commands are not known here";
            self.gaps.push(Gap::new(format!("the floor of {}", store.seen.label), why, false));
        }
        let seen = stores.into_iter().map(|store| store.seen).collect();
        let mut comparison = Comparison::new(conditions, seen, contests.clone());
        comparison.rounds = Some(self.options.rounds);
        comparison.length_ms = Some(self.options.length.as_secs_f64() * 1e3);
        comparison.durability.clone_from(&self.options.durability);
        comparison.peers = self.peers.map(|peers| peers.there).unwrap_or_default();
        comparison.cells = cells;
        comparison.gaps = self.gaps;
        comparison
    }
}

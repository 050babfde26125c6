//! One run: a store, some clients, and the time.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock_conformance::history::{self, Event, Promises, Recorder, What};
use distlock_conformance::recording::Recorded;
use distlock_core::{
    Claim, Clock, LockBackend, LockClient, LockKey, LockRequest, ManualClock, MemoryBackend, TryLock,
};

use crate::contender::Contender;
use crate::flawed::{Flaw, Flawed, FlawedClient};
use crate::resource::Resource;
use crate::weather::{Climate, Weather};

/// Virtual time in which everything has to come to an end.
const LIMIT: Duration = Duration::from_secs(3600);
/// How long the store keeps the place of a waiter that is gone, beyond its ttl.
const PLACE: Duration = Duration::from_secs(5);

/// What came of a seed.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) faults: Vec<String>,
    pub(crate) troubles: u64,
    pub(crate) dropped: u64,
    pub(crate) jumps: u64,
}

impl Outcome {
    pub(crate) fn count(&self, is_one: impl Fn(&What) -> bool) -> u64 {
        self.events.iter().filter(|event| is_one(&event.what)).count() as u64
    }

    /// The history with owners, call numbers and tokens by order of appearance.
    pub(crate) fn anonymous(&self) -> Vec<String> {
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let mut line = |event: &Event| {
            let mut value = serde_json::to_value(event).unwrap();
            for field in ["owner", "holder", "op", "token"] {
                let next = names.len();
                if let Some(name) = value.get_mut(field) {
                    *name = (*names.entry(format!("{field} {name}")).or_insert(next)).into();
                }
            }
            value.to_string()
        };
        self.events.iter().map(&mut line).collect()
    }
}

/// What the seed chose for the whole run.
struct Setting {
    climate: Climate,
    ttl: Duration,
    clients: usize,
    tasks: usize,
    keys: usize,
    jumps: bool,
}

impl Setting {
    fn choose(rng: &mut fastrand::Rng) -> Self {
        let ttl = Duration::from_millis([300, 1_000, 4_000][rng.usize(..3)]);
        let climate = Climate {
            trouble: [0, 30, 150, 400][rng.usize(..4)],
            ghosts: rng.u8(..3) != 0,
            most: ttl.mul_f64([0.05, 0.4, 1.5][rng.usize(..3)]),
        };
        Self {
            climate,
            ttl,
            clients: rng.usize(1..4),
            tasks: rng.usize(1..3),
            keys: rng.usize(1..3),
            jumps: rng.u8(..4) == 0,
        }
    }
}

/// Runs a seed. A panic is a fault like others, so that its seed is known.
pub(crate) fn run(seed: u64, flaw: Flaw) -> Outcome {
    catch_unwind(|| run_to_its_end(seed, flaw)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<&str>().copied();
        let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Outcome {
            seed,
            faults: vec![format!("the run panicked: {}", words.unwrap_or("without words"))],
            ..Outcome::default()
        }
    })
}

fn run_to_its_end(seed: u64, flaw: Flaw) -> Outcome {
    // The client's own choices (jitter) come from this thread's generator.
    fastrand::seed(seed);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let ended = tokio::time::timeout(LIMIT, live(seed, flaw)).await;
        ended.unwrap_or_else(|_| Outcome {
            seed,
            faults: vec![format!("stuck: it did not end within {LIMIT:?}")],
            ..Outcome::default()
        })
    })
}

async fn live(seed: u64, flaw: Flaw) -> Outcome {
    let mut rng = fastrand::Rng::with_seed(seed);
    let setting = Setting::choose(&mut rng);
    let (clock, hand) = Clock::jumping();
    let store = Arc::new(MemoryBackend::with_clock(clock.clone()));
    let log = Arc::new(Recorder::in_memory(clock));
    let keys = ["k", "K", "l"].map(|name| LockKey::new(name).unwrap());
    let places: Vec<_> = keys[..=setting.keys]
        .iter()
        .map(|key| (key.clone(), Resource::new(&key.to_string(), &log, flaw != Flaw::TheFenceIsOpen)))
        .collect();
    let places = Arc::new(places);
    let dropped = Arc::new(AtomicU64::new(0));
    let jumps = Arc::new(AtomicU64::new(0));
    let (mut weathers, mut clients, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setting.clients {
        let flawed = Flawed::new(Arc::clone(&store), hand.clone(), flaw, rng.u64(..));
        let recorded = Arc::new(Recorded::new(Arc::new(flawed), Arc::clone(&log)));
        let weather = Arc::new(Weather::new(recorded, setting.climate, rng.u64(..)));
        weathers.push(Arc::clone(&weather));
        let backend: Arc<dyn LockBackend> = match flaw {
            Flaw::RenewsWhatItReleases | Flaw::RepeatsAsAnother => Arc::new(FlawedClient::new(weather, flaw)),
            _ => weather,
        };
        let client = LockClient::new(backend);
        for _ in 0..setting.tasks {
            let contender = Contender {
                client: client.clone(),
                places: Arc::clone(&places),
                log: Arc::clone(&log),
                rng: rng.fork(),
                ttl: setting.ttl,
                rounds: rng.usize(2..5),
                dropped: Arc::clone(&dropped),
                trusts_a_flag: flaw == Flaw::TrustsAFlag,
            };
            tasks.push(tokio::spawn(contender.contend()));
        }
        clients.push(client);
    }
    let sleeper = setting
        .jumps
        .then(|| tokio::spawn(sleep_now_and_then(hand, rng.fork(), setting.ttl, Arc::clone(&jumps))));
    let mut faults = Vec::new();
    for task in tasks {
        if let Err(panic) = task.await {
            faults.push(format!("a contender failed: {panic}"));
        }
    }
    assert!(flaw != Flaw::TheRunPanics, "the flaw of this run with seed {seed}");
    if let Some(sleeper) = sleeper {
        sleeper.abort();
    }
    weathers.iter().for_each(|weather| weather.calm());
    for client in &clients {
        let left = client.shutdown(Duration::from_secs(60)).await;
        if !left.is_empty() {
            faults.push(format!("left behind: a shutdown in fair weather left {left:?}"));
        }
    }
    faults.extend(leftovers(&store, &places, &setting).await);
    let most = if jumps.load(Ordering::Relaxed) > 0 { setting.ttl * 2 } else { Duration::ZERO };
    // A sleep is noticed at the next look at the clock.
    let delay =
        u64::try_from((most + Duration::from_millis(if most.is_zero() { 0 } else { 300 })).as_nanos())
            .unwrap();
    log.record("", "", What::End { delay });
    let events = log.events();
    let mut promises = Promises::of(store.info());
    promises.lateness = Duration::from_millis(3);
    let violations = history::check(&events, promises);
    faults.extend(violations.iter().map(ToString::to_string));
    faults.extend(weathers.iter().flat_map(|weather| weather.faults()));
    Outcome {
        seed,
        events,
        faults,
        troubles: weathers.iter().map(|weather| weather.troubles()).sum(),
        dropped: dropped.load(Ordering::Relaxed),
        jumps: jumps.load(Ordering::Relaxed),
    }
}

/// The machine is suspended: its clock goes on, its timers don't.
async fn sleep_now_and_then(hand: ManualClock, mut rng: fastrand::Rng, ttl: Duration, jumps: Arc<AtomicU64>) {
    loop {
        // Each is noticed before the next, so that their lengths don't add up.
        tokio::time::sleep(Duration::from_secs(1) + (ttl * 3).mul_f64(rng.f64())).await;
        hand.advance((ttl * 2).mul_f64(rng.f64()));
        jumps.fetch_add(1, Ordering::Relaxed);
    }
}

/// Keys that are not free when all clients are gone. Calls that arrive after that may hold them for a while.
async fn leftovers(store: &MemoryBackend, places: &[(LockKey, Resource)], setting: &Setting) -> Vec<String> {
    if setting.climate.ghosts {
        tokio::time::sleep(setting.climate.most + setting.ttl + PLACE + Duration::from_secs(1)).await;
    }
    let mut left = Vec::new();
    for (key, _) in places {
        let request = LockRequest::new(Claim::mint(key.clone()), setting.ttl);
        match store.try_lock(&request).await {
            Ok(TryLock::Acquired(_)) => {}
            other => left.push(format!("left behind: when all are gone, `{key}` gives {other:?}")),
        }
    }
    left
}

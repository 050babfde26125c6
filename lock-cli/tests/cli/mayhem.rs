//! Runs one after the other on one lock, each cut short at random: by the death of the wrapper, of its
//! shepherd or of the command, by a stop, by trouble of the store. None may leave a process behind, run
//! on beside the next, or hold the lock for longer than its ttl.

use std::fs;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{Rig, Started, ended, eventually, is_alive, uptime};

const TTL: Duration = Duration::from_secs(1);
/// What a busy machine may take beside a ttl.
const SLACK: Duration = Duration::from_secs(10);
/// So many times a round is started before that counts as a failure.
const STARTS: usize = 5;
/// Names a round in the environment of all its processes.
const MARK: &str = "MAYHEM";

/// The store, as somebody who disturbs it sees it.
pub(crate) trait Store {
    /// Makes it fail, for less or for more than a ttl, and lets it come back.
    fn disturb(&mut self, rig: &Rig, lasts: Duration);
}

/// How many rounds: `DISTLOCK_KILLS`, or a few.
pub(crate) fn rounds(few: usize) -> usize {
    std::env::var("DISTLOCK_KILLS").map_or(few, |number| number.parse().expect("DISTLOCK_KILLS is a number"))
}

/// Where the chances come from: `DISTLOCK_SEED`, or the time.
pub(crate) fn seed() -> u64 {
    let chosen = std::env::var("DISTLOCK_SEED").ok().map(|seed| seed.parse().expect("a number"));
    chosen.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos()) | 1
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Wrapper,
    Terminated,
    Command,
    Shepherd,
    Stopped,
    Waiter,
    Store,
}

const BLOWS: [Blow; 8] = [
    Blow::Wrapper,
    Blow::Wrapper,
    Blow::Terminated,
    Blow::Command,
    Blow::Shepherd,
    Blow::Stopped,
    Blow::Waiter,
    Blow::Store,
];

/// A run under way, and when its lock must be free at the latest once it was struck.
struct Round {
    number: usize,
    mark: String,
    run: Option<Started>,
    blow: Option<Blow>,
    free_by: Duration,
}

/// As many rounds as asked for.
pub(crate) fn survive(rig: &Rig, store: &mut dyn Store, rounds: usize, seed: u64) {
    println!("{rounds} rounds with DISTLOCK_SEED={seed}");
    let mut chance = Chance(seed);
    let mut last: Option<Round> = None;
    for number in 0..rounds {
        let mark = format!("{}-{seed}-{number}", std::process::id());
        let (run, granted) = start(rig, number, &mark, last.as_mut());
        if let Some(last) = last.take() {
            check(rig, last, granted);
        }
        let round = Round { number, mark, run: Some(run), blow: None, free_by: Duration::ZERO };
        last = Some(strike(rig, store, round, &mut chance));
    }
    let end = ended(&mut rig.run(&["k"], "read now rest < /proc/uptime; echo $now"));
    let granted = Duration::from_secs_f64(end.stdout.trim().parse().unwrap());
    check(rig, last.expect("at least one round"), granted);
}

fn command(rig: &Rig, number: usize) -> std::process::Command {
    let script = format!(
        "echo $$ > pid.{number}; sleep 600 & \
         while :; do read now rest < /proc/uptime; echo $now >> beats.{number}; sleep 0.02; done"
    );
    rig.run(&["--ttl", "1s", "--grace", "200ms", "k"], &script)
}

fn strike(rig: &Rig, store: &mut dyn Store, mut round: Round, chance: &mut Chance) -> Round {
    let blow = chance.among(&BLOWS);
    let pause = uptime() + Duration::from_millis(chance.below(300));
    eventually("a moment", || (uptime() >= pause).then_some(()));
    let mut run = round.run.take().unwrap();
    let command = rig.pid(&format!("pid.{}", round.number));
    let mut lasts = Duration::ZERO;
    match blow {
        Blow::Wrapper => run.signal(Signal::KILL),
        Blow::Terminated => run.signal(Signal::TERM),
        // It may have ended by itself.
        Blow::Command => drop(kill_process(command, Signal::KILL)),
        Blow::Shepherd => {
            let first = eventually("a shepherd, unless the run has ended", || {
                shepherd(run.pid(), command).map(Some).or_else(|| run.has_ended().then_some(None))
            });
            let _ = first.map(|first| kill_process(first, Signal::KILL));
            // Killed at the same instant, they could not end more than the command's first process.
            eventually("another, unless the run has ended", || {
                let second = shepherd(run.pid(), command).filter(|second| Some(*second) != first);
                (second.is_some() || run.has_ended()).then_some(())
            });
            if !run.has_ended() {
                run.signal(Signal::KILL);
            }
        }
        Blow::Stopped => run.signal(Signal::STOP),
        Blow::Waiter => {
            let waiter = Started::from(rig.run(&["--ttl", "1s", "k"], "exit 0").env(MARK, &round.mark));
            let pause = uptime() + Duration::from_millis(chance.below(200));
            eventually("a moment", || (uptime() >= pause).then_some(()));
            waiter.signal(Signal::KILL);
            run.signal(Signal::KILL);
        }
        Blow::Store => {
            lasts = Duration::from_millis(chance.below(2500));
            store.disturb(rig, lasts);
            // Should it have lived through that.
            run.signal(Signal::KILL);
        }
    }
    round.free_by = uptime() + TTL + SLACK + lasts;
    round.blow = Some(blow);
    round.run = Some(run);
    round
}

/// The round is over, since the lock was granted to another run.
fn check(rig: &Rig, round: Round, granted: Duration) {
    let (number, blow) = (round.number, round.blow);
    let last = beats(rig, number).pop().unwrap();
    assert!(last <= granted, "round {number}, {blow:?}: it ran until {last:?}, the next from {granted:?}");
    let free_by = round.free_by;
    assert!(granted <= free_by, "round {number}, {blow:?}: free at {granted:?}, not by {free_by:?}");
    let run = round.run.unwrap();
    if blow == Some(Blow::Stopped) {
        run.signal(Signal::CONT);
        let end = run.end();
        assert_eq!(end.status, Some(76), "round {number}: {end:?}");
    } else {
        run.end();
    }
    eventually(&format!("the end of round {number}, {blow:?}: {:?}", left(&round.mark)), || {
        left(&round.mark).is_empty().then_some(())
    });
    let _ = fs::remove_file(rig.path(&format!("beats.{number}")));
}

/// Starts a round, and gives the instant of its first sign of life. On a machine that is busier than a
/// ttl of a second bears, a lock may be over before its command gives one; then again.
fn start(rig: &Rig, number: usize, mark: &str, mut last: Option<&mut Round>) -> (Started, Duration) {
    for _ in 0..STARTS {
        let mut run = Started::from(command(rig, number).env(MARK, mark));
        let first = eventually(&format!("round {number}"), || match beats(rig, number).first() {
            Some(first) => Some(Some(*first)),
            None => run.has_ended().then_some(None),
        });
        if let Some(first) = first {
            return (run, first);
        }
        let end = run.end();
        println!("round {number} did not start: {end:?}");
        match (end.status, &mut last) {
            // It had the lock, so that the last round's was over by then.
            (Some(76), Some(last)) => last.free_by = uptime() + TTL + SLACK,
            // One that was stopped in the middle of a write keeps the others from the file.
            (Some(69), Some(Round { blow: Some(Blow::Stopped), run: Some(stopped), free_by, .. })) => {
                stopped.signal(Signal::CONT);
                *free_by = uptime() + TTL + SLACK;
            }
            (Some(69 | 76), _) => {}
            _ => panic!("round {number}: {end:?}"),
        }
        eventually(&format!("its end: {:?}", left(mark)), || left(mark).is_empty().then_some(()));
    }
    panic!("round {number} did not start in {STARTS} attempts");
}

fn beats(rig: &Rig, number: usize) -> Vec<Duration> {
    let text = rig.read(&format!("beats.{number}"));
    // The last line may be half written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| Duration::from_secs_f64(line.parse().unwrap())).collect()
}

fn shepherd(wrapper: Pid, command: Pid) -> Option<Pid> {
    let wrapper = wrapper.as_raw_pid();
    let children = fs::read_to_string(format!("/proc/{wrapper}/task/{wrapper}/children")).ok()?;
    let mut children = children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    children.find(|pid| *pid != command)
}

/// The processes of a round that live.
fn left(mark: &str) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}");
    let has_mark = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes())
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|pid| has_mark(*pid) && Pid::from_raw(*pid).is_some_and(is_alive)).collect()
}

/// Chances that a seed repeats.
struct Chance(u64);

impl Chance {
    fn among<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

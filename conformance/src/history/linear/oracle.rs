//! The same question put to an independent checker, on small histories without expiry or doubt.

use proptest::prelude::*;
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use super::super::Promises;
use super::super::script::Script;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    TryLock,
    Renew,
    Unlock,
}

const KINDS: [Kind; 4] = [Kind::TryLock, Kind::TryLock, Kind::Unlock, Kind::Renew];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Granted(u64),
    Busy,
    Renewed,
    Released,
    NotHeld,
}

/// The lock as one thing after the other happens to it.
#[derive(Clone, Debug, Default)]
struct Lock {
    holder: Option<(u8, u64)>,
    last: u64,
}

impl Lock {
    fn is_held_by(&self, owner: u8) -> bool {
        self.holder.is_some_and(|(holder, _)| holder == owner)
    }
}

impl SequentialSpec for Lock {
    type Op = (u8, Kind);
    type Ret = Said;

    fn invoke(&mut self, (owner, kind): &(u8, Kind)) -> Said {
        let owns = self.is_held_by(*owner);
        match (kind, self.holder) {
            (Kind::TryLock, Some((_, token))) if owns => Said::Granted(token),
            (Kind::TryLock, Some(_)) => Said::Busy,
            (Kind::TryLock, None) => {
                self.last += 1;
                self.holder = Some((*owner, self.last));
                Said::Granted(self.last)
            }
            (Kind::Renew, _) if owns => Said::Renewed,
            (Kind::Unlock, _) if owns => {
                self.holder = None;
                Said::Released
            }
            (Kind::Renew | Kind::Unlock, _) => Said::NotHeld,
        }
    }

    /// Any token will do that is above all before.
    fn is_valid_step(&mut self, op: &(u8, Kind), said: &Said) -> bool {
        if let (Said::Granted(token), None) = (said, self.holder) {
            let rises = op.1 == Kind::TryLock && *token > self.last;
            (self.holder, self.last) = (Some((op.0, *token)), *token);
            return rises;
        }
        self.invoke(op) == *said
    }
}

#[derive(Clone, Copy, Debug)]
struct Call {
    owner: u8,
    kind: Kind,
    left: u64,
    answered: u64,
    said: Said,
}

/// Calls that took effect one after the other, each somewhere between its departure and its answer.
fn calls(plan: &[(u8, Kind, u64, u64)]) -> Vec<Call> {
    let mut lock = Lock::default();
    let mut calls: Vec<Call> = Vec::new();
    for (number, (owner, kind, before, after)) in (1..).zip(plan) {
        let effect = number * 10;
        // A caller makes one call at a time.
        let previous = calls.iter_mut().rfind(|call| call.owner == *owner);
        let earliest = previous.map_or(0, |call| {
            call.answered = call.answered.min(effect - 2);
            call.answered + 1
        });
        let said = lock.invoke(&(*owner, *kind));
        let left = effect.saturating_sub(*before).max(earliest);
        calls.push(Call { owner: *owner, kind: *kind, left, answered: effect + after, said });
    }
    calls
}

/// What the answer might have been as well.
fn another(said: Said, kind: Kind, token: u64) -> Said {
    match (kind, said) {
        (Kind::TryLock, Said::Busy) => Said::Granted(token),
        (Kind::TryLock, Said::Granted(old)) if old != token => Said::Granted(token),
        (Kind::TryLock, _) => Said::Busy,
        (Kind::Renew, Said::NotHeld) => Said::Renewed,
        (Kind::Unlock, Said::NotHeld) => Said::Released,
        (Kind::Renew | Kind::Unlock, _) => Said::NotHeld,
    }
}

fn by_h7(calls: &[Call]) -> bool {
    let mut script = Script::new();
    for call in calls {
        let (owner, until) = (format!("o{}", call.owner), u64::MAX);
        script = match (call.kind, call.said) {
            (Kind::TryLock, Said::Granted(token)) => {
                script.grant(&owner, call.left, call.answered, token, until)
            }
            (Kind::TryLock, _) => script.busy(&owner, call.left, call.answered, false),
            (Kind::Renew, Said::Renewed) => script.renew(&owner, call.left, call.answered, until),
            (Kind::Renew, _) => script.not_renewed(&owner, call.left, call.answered),
            (Kind::Unlock, said) => script.unlocked(&owner, call.left, call.answered, said == Said::Released),
        };
    }
    let events = script.events();
    let mut promises = Promises::common();
    promises.single_step = true;
    super::check("k", &events.iter().collect::<Vec<_>>(), promises, 0).is_none()
}

/// In the order in which [`by_h7`] sees it.
fn by_the_oracle(calls: &[Call]) -> bool {
    let ends = calls.iter().flat_map(|call| [(call.left, call, false), (call.answered, call, true)]);
    let mut ends: Vec<(u64, &Call, bool)> = ends.collect();
    ends.sort_by_key(|(at, ..)| *at);
    let mut tester = LinearizabilityTester::new(Lock::default());
    for (_, call, is_answer) in ends {
        let noted = match is_answer {
            false => tester.on_invoke(call.owner, (call.owner, call.kind)).map(drop),
            true => tester.on_return(call.owner, call.said).map(drop),
        };
        noted.expect("a caller makes one call at a time");
    }
    tester.is_consistent()
}

proptest! {
    #[test]
    fn h7_and_an_independent_checker_agree(
        plan in prop::collection::vec(
            (0_u8..3, prop::sample::select(KINDS.to_vec()), 0_u64..40, 0_u64..40),
            1..9,
        ),
        bend in any::<prop::sample::Index>(),
        token in 1_u64..6,
    ) {
        let mut calls = calls(&plan);
        prop_assert!(by_the_oracle(&calls), "{:?}", calls);
        prop_assert!(by_h7(&calls), "{:?}", calls);
        let bent = &mut calls[bend.index(plan.len())];
        bent.said = another(bent.said, bent.kind, token);
        prop_assert_eq!(by_h7(&calls), by_the_oracle(&calls), "{:?}", calls);
    }
}

/// Both answers come up, or the two would agree on little.
#[test]
fn some_bent_histories_have_an_order_and_most_have_none() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut ordered = 0;
    for _ in 0..400 {
        let plan: Vec<_> = (0..rng.usize(2..9))
            .map(|_| (rng.u8(..3), KINDS[rng.usize(..4)], rng.u64(..40), rng.u64(..40)))
            .collect();
        let mut calls = calls(&plan);
        let bent = &mut calls[rng.usize(..plan.len())];
        bent.said = another(bent.said, bent.kind, rng.u64(1..6));
        ordered += usize::from(by_h7(&calls));
    }
    assert!((20..=350).contains(&ordered), "{ordered} of 400");
}

//! The search for an order.

use std::collections::{BTreeSet, HashSet};

use super::call::{Answer, Call, Step, Story};

/// The lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Free,
    Held { owner: u32, token: u64, until: u64 },
}

/// What may be the case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Configuration {
    state: State,
    /// The highest token granted.
    last: u64,
    /// Calls that have taken effect and are not answered yet, in order of their numbers.
    done: Vec<usize>,
}

struct Search<'a> {
    story: &'a Story,
    sudden_ends: bool,
    /// Calls that left and are not answered yet.
    open: BTreeSet<usize>,
    loose: HashSet<u32>,
    all_loose: bool,
}

/// Looks for an order; else says why there is none.
pub(super) fn run(story: &Story, sudden_ends: bool, most: usize) -> Result<(), String> {
    let open = BTreeSet::new();
    let mut search = Search { story, sudden_ends, open, loose: HashSet::new(), all_loose: false };
    let mut current = vec![Configuration { state: State::Free, last: 0, done: Vec::new() }];
    for step in &story.steps {
        match *step {
            Step::Loose(owner) => {
                search.loose.insert(owner);
            }
            Step::AllLoose => search.all_loose = true,
            Step::Left(call) => {
                search.open.insert(call);
                current.iter_mut().for_each(|configuration| search.settle(configuration));
            }
            Step::Answered(call) => {
                let next = search.answered(call, &current, most)?;
                if next.is_empty() {
                    return Err(search.complaint(call, &current));
                }
                search.open.remove(&call);
                current = next;
            }
        }
    }
    Ok(())
}

impl Search<'_> {
    /// The configurations in which `call` has taken effect, by the time of its answer.
    fn answered(
        &self,
        call: usize,
        current: &[Configuration],
        most: usize,
    ) -> Result<Vec<Configuration>, String> {
        let now = self.story.calls[call].answered;
        let mut seen: HashSet<Configuration> = current.iter().cloned().collect();
        let mut todo: Vec<Configuration> = seen.iter().cloned().collect();
        let mut next = HashSet::new();
        while let Some(mut configuration) = todo.pop() {
            if let Ok(at) = configuration.done.binary_search(&call) {
                configuration.done.remove(at);
                next.insert(configuration);
                continue;
            }
            for mut follower in self.followers(&configuration, now) {
                self.settle(&mut follower);
                if seen.insert(follower.clone()) {
                    todo.push(follower);
                }
            }
            if seen.len() > most {
                return Err(format!(
                    "undecided: {most} configurations don't suffice for the answer at {now}, with {} calls open",
                    self.open.len()
                ));
            }
        }
        Ok(next.into_iter().collect())
    }

    /// What one step that may change the holder makes of it.
    fn followers(&self, from: &Configuration, now: u64) -> Vec<Configuration> {
        let mut followers = Vec::new();
        if self.may_end(from.state, now) {
            followers.push(Configuration { state: State::Free, ..from.clone() });
        }
        for call in self.open.iter().filter(|call| from.done.binary_search(call).is_err()) {
            if let Some((state, last)) = self.effect(from, &self.story.calls[*call]) {
                let mut follower = Configuration { state, last, done: from.done.clone() };
                note(&mut follower.done, *call);
                followers.push(follower);
            }
        }
        followers
    }

    fn may_end(&self, state: State, now: u64) -> bool {
        match state {
            State::Free => false,
            State::Held { owner, until, .. } => {
                until <= now || self.sudden_ends || self.all_loose || self.loose.contains(&owner)
            }
        }
    }

    /// The state and the highest token after the call, if it can take effect and may change the holder.
    fn effect(&self, from: &Configuration, call: &Call) -> Option<(State, u64)> {
        match (call.answer, from.state) {
            (Answer::Granted { token, until }, State::Free) if token > from.last => {
                Some((State::Held { owner: call.owner, token, until }, token))
            }
            (Answer::Released | Answer::HandedOver, State::Held { owner, .. }) if owner == call.owner => {
                Some((State::Free, from.last))
            }
            // A grant that nobody heard of came and went.
            (Answer::Released, State::Free) if call.latent => Some((State::Free, from.last)),
            (Answer::Forced, _) => Some((State::Free, from.last)),
            // It was out already.
            (Answer::HandedOver, state) => Some((state, from.last)),
            _ => None,
        }
    }

    /// Lets all open calls take effect that fit the state and leave the holder as it is. Nothing is lost by
    /// doing that at once: they fit no better later, and stand in the way of nothing.
    fn settle(&self, configuration: &mut Configuration) {
        for number in &self.open {
            if configuration.done.binary_search(number).is_ok() {
                continue;
            }
            let call = &self.story.calls[*number];
            if let Some(until) = fits(call, configuration.state) {
                if let State::Held { until: held_until, .. } = &mut configuration.state {
                    *held_until = until.max(*held_until);
                }
                note(&mut configuration.done, *number);
            }
        }
    }

    fn complaint(&self, number: usize, current: &[Configuration]) -> String {
        let call = &self.story.calls[number];
        let name = self.story.name(call.owner);
        let what = match call.answer {
            Answer::Granted { token, .. } => format!("{name} was granted it with token {token}"),
            Answer::Renewed { .. } => format!("a renewal by {name} succeeded"),
            Answer::NotHeld => format!("{name} was told that it does not hold it"),
            Answer::Released => format!("a release by {name} succeeded"),
            Answer::HandedOver => format!("{name} handed it over"),
            Answer::Forced => "it was taken away from nobody".to_owned(),
            Answer::Busy => format!("{name} was told busy"),
            Answer::Shown { token } => format!("the store showed {name} with token {token:?}"),
            Answer::ShownFree => "the store showed no holder".to_owned(),
        };
        let states: BTreeSet<String> = current.iter().take(100).map(|one| self.describe(one)).collect();
        let states: Vec<String> = states.into_iter().take(3).collect();
        format!(
            "no order of the calls explains that {what} between {} and {}: before that it was {}",
            call.left,
            call.answered,
            states.join(", or ")
        )
    }

    fn describe(&self, configuration: &Configuration) -> String {
        match configuration.state {
            State::Free => format!("free after token {}", configuration.last),
            State::Held { owner, token, until } => {
                format!("held by {} with token {token} until at least {until}", self.story.name(owner))
            }
        }
    }
}

/// Until when the lock is held at least after a call that leaves the holder as it is, if the call fits.
fn fits(call: &Call, state: State) -> Option<u64> {
    let (holder, held_token) = match state {
        State::Free => (None, None),
        State::Held { owner, token, .. } => (Some(owner), Some(token)),
    };
    let own = holder == Some(call.owner);
    match call.answer {
        Answer::Granted { token, until } => (own && held_token == Some(token)).then_some(until),
        Answer::Renewed { until } => own.then_some(until),
        Answer::NotHeld => (!own).then_some(0),
        Answer::Busy => (holder.is_some() && !own).then_some(0),
        Answer::Shown { token } => {
            let same = own && token.is_none_or(|token| held_token == Some(token));
            (same || call.latent).then_some(0)
        }
        Answer::ShownFree => holder.is_none().then_some(0),
        // These change the holder, or would have.
        Answer::Released | Answer::HandedOver | Answer::Forced => None,
    }
}

fn note(done: &mut Vec<usize>, call: usize) {
    if let Err(at) = done.binary_search(&call) {
        done.insert(at, call);
    }
}

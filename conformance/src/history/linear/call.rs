//! From events to calls that took effect, and to what calls without an answer permit.

use std::collections::BTreeMap;

use super::super::Promises;
use super::super::event::{Event, What, nanos};
use super::super::outages::Outages;
use super::super::spans::Spans;

/// What the answer of a call says about the lock. Owners are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The owner holds it, with this token, for sure until then.
    Granted { token: u64, until: u64 },
    /// The owner holds it still.
    Renewed { until: u64 },
    /// The owner does not hold it.
    NotHeld,
    /// The owner held it until now.
    Released,
    /// The owner does not hold it from now on.
    HandedOver,
    /// Whoever held it does so no more.
    Forced,
    /// Somebody else holds it.
    Busy,
    /// The store shows the owner with this token.
    Shown { token: Option<u64> },
    /// The store shows nobody.
    ShownFree,
}

/// A call with its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) owner: u32,
    pub(super) answer: Answer,
    pub(super) left: u64,
    pub(super) answered: u64,
    /// An attempt of the owner may have been granted without an answer.
    pub(super) latent: bool,
}

/// What happens to the lock's observers, in order of time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Left(usize),
    Answered(usize),
    /// From now on a hold of the owner may be released by a call without an answer.
    Loose(u32),
    /// Any hold may.
    AllLoose,
}

/// Everything that was done to one key.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) calls: Vec<Call>,
    pub(super) steps: Vec<Step>,
    names: Vec<String>,
}

impl Story {
    /// `margin` is how much later than promised a record may vanish.
    pub(super) fn of(events: &[&Event], promises: Promises, margin: u64) -> Self {
        let mut names = Names::default();
        let outcomes = outcomes(events);
        let latents = latents(events, &outcomes, promises, margin, &mut names);
        let mut excuses = latents.clone();
        if !promises.single_step {
            excuses.extend(asks(events, &outcomes, &mut names));
        }
        let excuses = Spans::new(excuses);
        let mut of_owner: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for (from, until, owner) in latents {
            of_owner.entry(owner).or_default().push((from, until));
        }
        let mut story = Self { calls: Vec::new(), steps: Vec::new(), names: Vec::new() };
        let mut numbers = BTreeMap::new();
        for event in events {
            let owner = names.number(&event.owner);
            let Some(op) = event.what.left() else {
                if let Some(call) = event.what.answered().and_then(|op| numbers.get(&op)) {
                    story.steps.push(Step::Answered(*call));
                }
                continue;
            };
            let Some(outcome) = outcomes.get(&op) else {
                match event.what {
                    What::Unlock { .. } => story.steps.push(Step::Loose(owner)),
                    What::Force { .. } => story.steps.push(Step::AllLoose),
                    _ => {}
                }
                continue;
            };
            let handed =
                matches!(event.what, What::Unlock { handed: true, .. } | What::Ask { handed: true, .. });
            let Some((shown, answer)) = meaning(&outcome.what, handed) else {
                let has_effect = !matches!(outcome.what, What::Kept { .. });
                if has_effect && matches!(event.what, What::Unlock { .. }) {
                    story.steps.push(Step::Loose(owner));
                }
                continue;
            };
            let owner = shown.map_or(owner, |shown| names.number(shown));
            let mut own = of_owner.get(&owner).into_iter().flatten();
            let latent = own.any(|(from, until)| *from <= outcome.at && *until >= event.at);
            let is_excused = || excuses.during(event.at, outcome.at).any(|other| *other != owner);
            if answer == Answer::Busy && is_excused() {
                continue;
            }
            if matches!(answer, Answer::Shown { .. } | Answer::ShownFree) && !promises.single_step {
                continue;
            }
            numbers.insert(op, story.calls.len());
            story.steps.push(Step::Left(story.calls.len()));
            story.calls.push(Call { owner, answer, left: event.at, answered: outcome.at, latent });
        }
        story.names = names.names;
        story
    }

    pub(super) fn name(&self, owner: u32) -> &str {
        self.names.get(owner as usize).map_or("?", String::as_str)
    }
}

#[derive(Default)]
struct Names {
    numbers: BTreeMap<String, u32>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).expect("no history has that many owners");
        self.numbers.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        number
    }
}

fn outcomes<'a>(events: &[&'a Event]) -> BTreeMap<u64, &'a Event> {
    events.iter().filter_map(|event| Some((event.what.answered()?, *event))).collect()
}

/// What an answer says, and of whom if not of the caller. A failed call says nothing.
fn meaning(what: &What, handed: bool) -> Option<(Option<&str>, Answer)> {
    let answer = match what {
        What::Granted { token, valid_until, .. } => Answer::Granted { token: *token, until: *valid_until },
        // Perhaps there was nothing to hand over.
        What::Busy { .. } if handed => return None,
        What::Busy { .. } => Answer::Busy,
        What::Renewed { valid_until, .. } => Answer::Renewed { until: *valid_until },
        What::RenewLost { .. } => Answer::NotHeld,
        What::Unlocked { .. } if handed => Answer::HandedOver,
        What::Unlocked { released: true, .. } => Answer::Released,
        What::Unlocked { released: false, .. } => Answer::NotHeld,
        What::Forced { .. } => Answer::Forced,
        What::Seen { holder: Some(holder), token, .. } => {
            return Some((Some(holder), Answer::Shown { token: *token }));
        }
        What::Seen { holder: None, .. } => Answer::ShownFree,
        _ => return None,
    };
    Some((None, answer))
}

/// Stretches of time during which an attempt of an owner without a clear answer may lie in the store.
fn latents(
    events: &[&Event],
    outcomes: &BTreeMap<u64, &Event>,
    promises: Promises,
    margin: u64,
    names: &mut Names,
) -> Vec<(u64, u64, u32)> {
    let releases = releases(events, outcomes);
    let outages = Outages::of(events);
    let mut latents = Vec::new();
    for event in events {
        let What::Ask { op, queue, ttl, .. } = event.what else { continue };
        let answered = outcomes.get(&op).map(|outcome| (&outcome.what, outcome.at));
        let place = if queue { nanos(promises.place) } else { 0 };
        let stays = ttl.saturating_add(margin).saturating_add(place);
        let until = |from: u64| outages.prolong(from.saturating_add(stays), stays);
        let until = match answered {
            Some((What::Busy { .. }, at)) if queue => {
                let of_owner = releases.get(event.owner.as_str()).into_iter().flatten();
                let gone = of_owner.filter(|(left, _)| *left >= at).map(|(_, answered)| *answered).min();
                gone.unwrap_or(u64::MAX).min(until(at))
            }
            Some((What::AskFailed { unknown: true, .. }, at)) => until(at),
            None => until(event.at),
            _ => continue,
        };
        latents.push((event.at, until, names.number(&event.owner)));
    }
    latents
}

/// When the releases of each owner left that were carried out, and when they were answered.
fn releases<'a>(
    events: &[&'a Event],
    outcomes: &BTreeMap<u64, &Event>,
) -> BTreeMap<&'a str, Vec<(u64, u64)>> {
    let mut releases: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for event in events {
        if let What::Unlock { op, .. } = event.what
            && let Some(answer) = outcomes.get(&op)
            && matches!(answer.what, What::Unlocked { .. })
        {
            releases.entry(&event.owner).or_default().push((event.at, answer.at));
        }
    }
    releases
}

/// The attempts, while they are on their way.
fn asks(events: &[&Event], outcomes: &BTreeMap<u64, &Event>, names: &mut Names) -> Vec<(u64, u64, u32)> {
    let ask = |event: &&Event| {
        let What::Ask { op, .. } = event.what else { return None };
        let until = outcomes.get(&op)?.at;
        Some((event.at, until, names.number(&event.owner)))
    };
    events.iter().filter_map(ask).collect()
}

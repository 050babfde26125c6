//! The protocol's decisions about a lease that is held: renewals, hand-overs and releases, without any I/O.

use distlock_core::LostReason;

use super::ballot::majority;

/// What one node said to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extension {
    /// The lease goes on here.
    Extended,
    /// The node has no record of the lease, and has granted nothing since: it can be put back.
    Forgotten,
    /// It was given up or taken away here, or somebody else had the lock since.
    Gone,
    /// Somebody else holds the lock here.
    Foreign,
    /// The node can't be used, or did not answer in time.
    Silent,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Wait for more answers.
    Wait,
    /// A majority has the lease.
    Renewed,
    /// A majority has it once those that forgot it have it back.
    TopUp,
    /// The lease is over.
    Lost(LostReason),
    /// Too few nodes answered to tell.
    Inconclusive,
}

/// One lease's answers so far.
#[derive(Clone, Debug)]
pub(super) struct Extensions {
    answers: Vec<Option<Extension>>,
    was_topped_up: bool,
}

impl Extensions {
    /// No node has answered yet.
    pub(super) fn new(nodes: usize) -> Self {
        Self { answers: vec![None; nodes], was_topped_up: false }
    }

    /// A node answered.
    pub(super) fn note(&mut self, node: usize, answer: Extension) {
        self.answers[node] = Some(answer);
    }

    /// Time is up: who has not answered is silent. Gives those.
    pub(super) fn close(&mut self) -> Vec<usize> {
        let late: Vec<_> = (0..self.answers.len()).filter(|node| self.answers[*node].is_none()).collect();
        for node in &late {
            self.answers[*node] = Some(Extension::Silent);
        }
        late
    }

    /// The nodes that forgot the lease are asked to put it back, which is done once.
    pub(super) fn top_up(&mut self) {
        self.was_topped_up = true;
        for answer in &mut self.answers {
            if *answer == Some(Extension::Forgotten) {
                *answer = None;
            }
        }
    }

    /// The nodes that forgot the lease.
    pub(super) fn forgotten(&self) -> impl Iterator<Item = usize> {
        self.nodes_that_said(Extension::Forgotten)
    }

    /// Whether some node has the lease.
    pub(super) fn any_extended(&self) -> bool {
        self.count(Extension::Extended) > 0
    }

    /// What became of the renewal.
    ///
    /// A lease that no node has is not put back: nobody could tell it from one that has ended.
    pub(super) fn verdict(&self) -> Verdict {
        let needed = majority(self.answers.len());
        let open = self.answers.iter().filter(|answer| answer.is_none()).count();
        let (extended, silent) = (self.count(Extension::Extended), self.count(Extension::Silent));
        let forgotten = self.count(Extension::Forgotten);
        if extended >= needed {
            return Verdict::Renewed;
        }
        let may_come_back = if extended + open + silent > 0 { forgotten } else { 0 };
        if extended + open + silent + may_come_back < needed {
            let foreign = self.count(Extension::Foreign);
            // Others may still say that somebody else has it.
            let is_known = open == 0 || foreign >= needed || foreign + open < needed;
            return if is_known { Verdict::Lost(self.reason(needed)) } else { Verdict::Wait };
        }
        if open > 0 {
            return Verdict::Wait;
        }
        if !self.was_topped_up && extended > 0 && extended + forgotten >= needed {
            return Verdict::TopUp;
        }
        // What a silent node may have does not help where all others know of none.
        if extended == 0 && silent < needed {
            return Verdict::Lost(self.reason(needed));
        }
        Verdict::Inconclusive
    }

    fn reason(&self, needed: usize) -> LostReason {
        if self.count(Extension::Foreign) >= needed { LostReason::Stolen } else { LostReason::Expired }
    }

    fn count(&self, wanted: Extension) -> usize {
        self.nodes_that_said(wanted).count()
    }

    fn nodes_that_said(&self, wanted: Extension) -> impl Iterator<Item = usize> {
        let nodes = self.answers.iter().enumerate();
        nodes.filter(move |(_, answer)| **answer == Some(wanted)).map(|(node, _)| node)
    }
}

/// What one node said to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freed {
    /// It was held here, and is not any more.
    Released,
    /// It was not held here.
    Missing,
    /// Somebody else holds it here.
    Foreign,
    /// The node can't be used, or did not answer in time.
    Silent,
}

/// What became of a release; none while more answers are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The lock was held, and is free.
    Released,
    /// It was not held.
    NotHeld(LostReason),
    /// Too few nodes answered for others to get it, or to tell whose it was.
    Unavailable,
}

/// Decides a release by the answers so far.
pub(super) fn ending(answers: &[Option<Freed>]) -> Option<Ending> {
    let needed = majority(answers.len());
    let count = |wanted| answers.iter().filter(|answer| **answer == wanted).count();
    let (open, silent) = (count(None), count(Some(Freed::Silent)));
    let (released, foreign) = (count(Some(Freed::Released)), count(Some(Freed::Foreign)));
    let answered = answers.len() - open - silent;
    if released >= needed {
        return Some(Ending::Released);
    }
    if answered >= needed && released + silent + open < needed {
        let reason = if foreign >= needed { LostReason::Stolen } else { LostReason::Expired };
        // Others may still say that somebody else has it.
        return (open == 0 || foreign + open < needed || foreign >= needed)
            .then_some(Ending::NotHeld(reason));
    }
    match open {
        0 if answered < needed => Some(Ending::Unavailable),
        // What was freed may be a leftover, beside somebody who has the lock.
        0 if released > 0 && foreign + silent >= needed => Some(Ending::Unavailable),
        // A silent node may have been the one that made it a majority.
        0 if released > 0 => Some(Ending::Released),
        0 => Some(Ending::NotHeld(LostReason::Expired)),
        _ => None,
    }
}

/// What one node said to a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    /// The next one holds the lock here.
    Passed,
    /// The lease was not held here.
    Missing,
    /// Somebody else holds the lock here.
    Foreign,
    /// The next token is one that the node would not give any more; all is as it was.
    Behind,
    /// The node can't be used, or did not answer in time.
    Silent,
}

/// What became of a hand-over; none while more answers are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// The next one holds the lock.
    Passed,
    /// The next one does not, and can't get it by this any more.
    Refused,
    /// Too few nodes answered to tell.
    Unavailable,
}

/// Decides a hand-over by the answers so far.
pub(super) fn passage(answers: &[Option<Passing>]) -> Option<Passage> {
    let needed = majority(answers.len());
    let count = |wanted| answers.iter().filter(|answer| **answer == wanted).count();
    let (open, silent, passed) = (count(None), count(Some(Passing::Silent)), count(Some(Passing::Passed)));
    if passed >= needed {
        return Some(Passage::Passed);
    }
    if passed + silent + open < needed {
        return Some(Passage::Refused);
    }
    (open == 0).then_some(Passage::Unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Extension::{Extended, Foreign, Forgotten, Gone, Silent};

    fn verdict(answers: &[Extension]) -> Verdict {
        let mut extensions = Extensions::new(answers.len());
        for (node, answer) in answers.iter().enumerate() {
            extensions.note(node, *answer);
        }
        extensions.verdict()
    }

    #[test]
    fn a_majority_renews_whatever_the_others_say() {
        assert_eq!(verdict(&[Extended, Extended, Silent]), Verdict::Renewed);
        assert_eq!(verdict(&[Extended, Extended, Extended, Foreign, Gone]), Verdict::Renewed);
    }

    #[test]
    fn what_was_forgotten_is_put_back_while_somebody_remembers() {
        assert_eq!(verdict(&[Extended, Extended, Forgotten, Foreign, Foreign]), Verdict::TopUp);
        assert_eq!(verdict(&[Extended, Forgotten, Silent]), Verdict::TopUp);
        assert_eq!(verdict(&[Forgotten, Forgotten, Forgotten]), Verdict::Lost(LostReason::Expired));
        assert_eq!(verdict(&[Forgotten, Forgotten, Silent]), Verdict::Lost(LostReason::Expired));
        let mut tried = Extensions::new(3);
        for (node, answer) in [Extended, Forgotten, Silent].into_iter().enumerate() {
            tried.note(node, answer);
        }
        assert_eq!(tried.forgotten().collect::<Vec<_>>(), [1]);
        tried.top_up();
        assert_eq!(tried.verdict(), Verdict::Wait);
        tried.note(1, Forgotten);
        assert_eq!(tried.verdict(), Verdict::Inconclusive, "it failed, and may work next time");
        let mut held_off = Extensions::new(5);
        for (node, answer) in [Extended, Extended, Forgotten, Forgotten, Forgotten].into_iter().enumerate() {
            held_off.note(node, answer);
        }
        held_off.top_up();
        (2..5).for_each(|node| held_off.note(node, Forgotten));
        assert_eq!(held_off.verdict(), Verdict::Inconclusive, "they hold off, and may put it back later");
    }

    #[test]
    fn silence_is_no_loss() {
        assert_eq!(verdict(&[Extended, Silent, Silent]), Verdict::Inconclusive);
        assert_eq!(verdict(&[Silent, Silent, Silent]), Verdict::Inconclusive);
        assert_eq!(verdict(&[Gone, Silent, Silent]), Verdict::Inconclusive);
        assert_eq!(verdict(&[Extended, Gone, Gone]), Verdict::Lost(LostReason::Expired));
        assert_eq!(verdict(&[Silent, Foreign, Foreign]), Verdict::Lost(LostReason::Stolen));
        assert_eq!(verdict(&[Gone, Gone, Silent]), Verdict::Lost(LostReason::Expired));
    }

    #[test]
    fn who_has_it_now_is_told_if_a_majority_may_still_say_so() {
        let mut one = Extensions::new(3);
        one.note(0, Gone);
        one.note(1, Foreign);
        assert_eq!(one.verdict(), Verdict::Wait);
        let mut silent = one.clone();
        silent.close();
        assert_eq!(silent.verdict(), Verdict::Lost(LostReason::Expired), "lost it is all the same");
        one.note(2, Foreign);
        assert_eq!(one.verdict(), Verdict::Lost(LostReason::Stolen));
        let mut over = Extensions::new(3);
        over.note(0, Gone);
        over.note(2, Gone);
        assert_eq!(over.verdict(), Verdict::Lost(LostReason::Expired), "one more changes nothing");
    }

    #[test]
    fn a_hand_over_is_decided_by_a_majority() {
        use Passing::{Behind, Foreign, Missing, Passed, Silent};
        let became = |answers: &[Passing]| passage(&answers.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(became(&[Passed, Passed, Foreign]), Some(Passage::Passed));
        assert_eq!(became(&[Passed, Missing, Missing]), Some(Passage::Refused));
        assert_eq!(
            became(&[Passed, Missing, Silent]),
            Some(Passage::Unavailable),
            "the third may have passed it on"
        );
        assert_eq!(became(&[Passed, Behind, Behind]), Some(Passage::Refused));
        assert_eq!(became(&[Silent, Foreign, Foreign]), Some(Passage::Refused));
        assert_eq!(passage(&[Some(Passed), Some(Missing), None]), None);
        assert_eq!(passage(&[Some(Passed), Some(Passed), None]), Some(Passage::Passed));
        assert_eq!(passage(&[Some(Missing), Some(Missing), None]), Some(Passage::Refused));
    }

    #[test]
    fn a_release_is_decided_by_a_majority() {
        use Freed::{Foreign, Missing, Released, Silent};
        let ended = |answers: &[Freed]| ending(&answers.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(ended(&[Released, Released, Missing]), Some(Ending::Released));
        assert_eq!(ended(&[Released, Missing, Foreign]), Some(Ending::NotHeld(LostReason::Expired)));
        assert_eq!(ended(&[Foreign, Missing, Foreign]), Some(Ending::NotHeld(LostReason::Stolen)));
        assert_eq!(ended(&[Released, Missing, Silent]), Some(Ending::Released));
        assert_eq!(
            ended(&[Released, Foreign, Silent]),
            Some(Ending::Unavailable),
            "whose it was is not known"
        );
        let [one, other] = [ended(&[Released, Foreign, Foreign, Silent, Silent]), ended(&[Released; 5])];
        assert_eq!([one, other], [Some(Ending::Unavailable), Some(Ending::Released)]);
        assert_eq!(ended(&[Released, Released, Missing, Silent, Silent]), Some(Ending::Released));
        assert_eq!(ended(&[Missing, Missing, Silent]), Some(Ending::NotHeld(LostReason::Expired)));
        assert_eq!(ended(&[Released, Silent, Silent]), Some(Ending::Unavailable));
        assert_eq!(ending(&[Some(Released), None, None]), None);
        assert_eq!(ending(&[Some(Released), Some(Released), None]), Some(Ending::Released));
        assert_eq!(ending(&[Some(Missing), Some(Missing), None]), Some(Ending::NotHeld(LostReason::Expired)));
    }
}

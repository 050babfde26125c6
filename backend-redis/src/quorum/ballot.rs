//! The protocol's decisions about one attempt, without any I/O.
//!
//! First every node votes: it grants the lock to the claim, or says who has it. With a majority of grants
//! a token is proposed, and each node that granted is asked to take it over. The lock is held once a
//! majority has.

/// How many of `nodes` are a majority.
pub(super) const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// What one node said to an attempt. `O` names owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Vote<O> {
    /// The claim holds the lock here.
    Granted {
        /// The node's own token for it.
        token: u64,
        /// Whether the claim proposed this token before, and the node took it over.
        agreed: bool,
    },
    /// Somebody else holds it here.
    Busy {
        /// Who, if the node can tell.
        holder: Option<O>,
        /// Whether the node took over that holder's token.
        agreed: bool,
    },
    /// The node can't be used, or did not answer in time.
    Silent,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Wait for more answers.
    Wait,
    /// [Propose](Ballot::propose) this token to every node that granted.
    Propose(u64),
    /// The lock is held, with this token.
    Won(u64),
    /// It is not, and the claim had better leave no trace.
    Failed(Defeat),
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defeat {
    /// Somebody else holds the lock.
    Held,
    /// Somebody else may hold it: less than a majority say so, and too many are silent.
    Doubtful,
    /// Several claims have some nodes each, and none of them enough.
    Split {
        /// Whether this claim goes first among them, so that it keeps what it has and asks again.
        goes_first: bool,
    },
    /// Too few nodes can be used to decide anything.
    Unavailable,
    /// Too few nodes took over the token.
    Disagreed,
}

/// One attempt's answers so far.
#[derive(Clone, Debug)]
pub(super) struct Ballot<O> {
    me: O,
    votes: Vec<Option<Vote<O>>>,
    proposed: Option<u64>,
    /// Which nodes took over the proposed token, as far as they have answered.
    confirmed: Vec<Option<bool>>,
}

impl<O: Clone + Ord> Ballot<O> {
    /// Nobody has answered `me` yet.
    pub(super) fn new(me: O, nodes: usize) -> Self {
        Self { me, votes: vec![None; nodes], proposed: None, confirmed: vec![None; nodes] }
    }

    /// A node voted.
    pub(super) fn vote(&mut self, node: usize, vote: Vote<O>) {
        self.votes[node] = Some(vote);
    }

    /// A node took over the proposed token, or did not.
    pub(super) fn confirm(&mut self, node: usize, took_over: bool) {
        self.confirmed[node] = Some(took_over);
    }

    /// Time is up: who has not answered is silent. Gives those.
    pub(super) fn close(&mut self) -> Vec<usize> {
        let mut late = Vec::new();
        for node in 0..self.votes.len() {
            let votes = self.votes[node].is_some();
            let confirms = self.proposed.is_none() || !self.granted(node) || self.confirmed[node].is_some();
            if votes && confirms {
                continue;
            }
            late.push(node);
            self.votes[node].get_or_insert(Vote::Silent);
            if self.proposed.is_some() {
                self.confirmed[node].get_or_insert(false);
            }
        }
        late
    }

    /// Proposes a token; gives the nodes that granted so far.
    pub(super) fn propose(&mut self, token: u64) -> Vec<usize> {
        self.proposed = Some(token);
        (0..self.votes.len()).filter(|node| self.granted(*node)).collect()
    }

    /// The token that was proposed.
    #[cfg(test)]
    pub(super) const fn proposed(&self) -> Option<u64> {
        self.proposed
    }

    /// Whether this node granted.
    pub(super) fn granted(&self, node: usize) -> bool {
        matches!(self.votes[node], Some(Vote::Granted { .. }))
    }

    /// Whether some node took over a token of the claim before.
    pub(super) fn was_agreed(&self) -> bool {
        self.votes.iter().any(|vote| matches!(vote, Some(Vote::Granted { agreed: true, .. })))
    }

    /// Whether this node may have a trace of the claim.
    pub(super) fn may_have_granted(&self, node: usize) -> bool {
        !matches!(self.votes[node], Some(Vote::Busy { .. }))
    }

    /// Whether this node failed, or did not vote in time.
    pub(super) fn is_silent(&self, node: usize) -> bool {
        matches!(self.votes[node], Some(Vote::Silent))
    }

    /// What to do next.
    pub(super) fn course(&self) -> Course {
        let needed = majority(self.votes.len());
        match self.proposed {
            Some(token) if self.count_confirmed(Some(true)) >= needed => Course::Won(token),
            Some(_) if self.count_confirmed(Some(true)) + self.may_still_confirm() < needed => {
                Course::Failed(Defeat::Disagreed)
            }
            Some(_) => Course::Wait,
            None => self.course_of_votes(needed),
        }
    }

    fn course_of_votes(&self, needed: usize) -> Course {
        let granted = self.count(|vote| matches!(vote, Some(Vote::Granted { .. })));
        let busy = self.count(|vote| matches!(vote, Some(Vote::Busy { .. })));
        let open = self.count(Option::is_none);
        if granted >= needed {
            return self.token().map_or(Course::Failed(Defeat::Disagreed), Course::Propose);
        }
        if granted + open >= needed {
            return Course::Wait;
        }
        if granted + busy >= needed {
            return Course::Failed(self.rivalry(needed));
        }
        if open == 0 { Course::Failed(Defeat::Unavailable) } else { Course::Wait }
    }

    /// The token to propose: the one that was agreed on before, else the highest, which is above all that
    /// was ever agreed on by a majority. None if several were agreed on, of which at most one counts.
    fn token(&self) -> Option<u64> {
        let granted = self.votes.iter().filter_map(|vote| match vote {
            Some(Vote::Granted { token, agreed }) => Some((*token, *agreed)),
            _ => None,
        });
        let mut agreed: Vec<u64> =
            granted.clone().filter(|(_, agreed)| *agreed).map(|(token, _)| token).collect();
        agreed.sort_unstable();
        agreed.dedup();
        match agreed.as_slice() {
            [] => granted.map(|(token, _)| token).max(),
            [token] => Some(*token),
            _ => None,
        }
    }

    /// Whether one of the others has the lock, may have it, or nobody has.
    fn rivalry(&self, needed: usize) -> Defeat {
        let mut holders = Vec::new();
        for vote in self.votes.iter().flatten() {
            match vote {
                Vote::Busy { holder: None, .. } => return Defeat::Held,
                Vote::Busy { holder: Some(holder), agreed } => holders.push((holder, *agreed)),
                _ => {}
            }
        }
        holders.sort_unstable();
        let silent = self.count(|vote| matches!(vote, None | Some(Vote::Silent)));
        let mut rivals = Vec::new();
        let mut is_doubtful = false;
        for same in holders.chunk_by(|one, other| one.0 == other.0) {
            let is_agreed = same.iter().any(|(_, agreed)| *agreed);
            if same.len() >= needed {
                return Defeat::Held;
            }
            is_doubtful |= is_agreed && same.len() + silent >= needed;
            // With too few nodes left, a lock that was agreed on is over: what it still has goes away by itself.
            if !is_agreed {
                rivals.push(same[0].0);
            }
        }
        if is_doubtful {
            return Defeat::Doubtful;
        }
        // All see the same order, so that at least the first of them goes on.
        Defeat::Split { goes_first: rivals.first().is_none_or(|first| self.me < **first) }
    }

    fn count(&self, is_meant: impl Fn(&Option<Vote<O>>) -> bool) -> usize {
        self.votes.iter().filter(|vote| is_meant(vote)).count()
    }

    fn count_confirmed(&self, answer: Option<bool>) -> usize {
        self.confirmed.iter().filter(|confirmed| **confirmed == answer).count()
    }

    /// Nodes that have granted, or may still, and have not refused the token.
    fn may_still_confirm(&self) -> usize {
        let may = |node: &usize| {
            self.confirmed[*node].is_none() && (self.votes[*node].is_none() || self.granted(*node))
        };
        (0..self.votes.len()).filter(may).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(token: u64) -> Vote<u32> {
        Vote::Granted { token, agreed: false }
    }

    fn busy(holder: u32) -> Vote<u32> {
        Vote::Busy { holder: Some(holder), agreed: false }
    }

    fn course(me: u32, nodes: usize, votes: &[Vote<u32>]) -> Course {
        let mut ballot = Ballot::new(me, nodes);
        for (node, vote) in votes.iter().enumerate() {
            ballot.vote(node, vote.clone());
        }
        ballot.course()
    }

    #[test]
    fn a_majority_of_grants_proposes_the_highest_token_at_once() {
        assert_eq!(course(1, 5, &[granted(3), granted(9)]), Course::Wait);
        assert_eq!(course(1, 5, &[granted(3), granted(9), granted(4)]), Course::Propose(9));
        let again = Vote::Granted { token: 7, agreed: true };
        assert_eq!(course(1, 5, &[granted(3), granted(9), again.clone()]), Course::Propose(7));
        let other = Vote::Granted { token: 8, agreed: true };
        assert_eq!(course(1, 3, &[again, other]), Course::Failed(Defeat::Disagreed));
    }

    #[test]
    fn faults_are_no_busy_lock() {
        use Vote::Silent;
        assert_eq!(course(1, 5, &[Silent, Silent]), Course::Wait);
        assert_eq!(course(1, 3, &[Silent, Silent]), Course::Wait, "whose fault it is is not known yet");
        assert_eq!(course(1, 3, &[Silent, Silent, busy(2)]), Course::Failed(Defeat::Unavailable));
        assert_eq!(course(1, 3, &[Silent, busy(2), busy(2)]), Course::Failed(Defeat::Held));
        assert_eq!(
            course(1, 5, &[granted(1), granted(1), Silent, Silent, Silent]),
            Course::Failed(Defeat::Unavailable)
        );
    }

    #[test]
    fn a_split_vote_has_one_who_goes_first() {
        let split = |goes_first| Course::Failed(Defeat::Split { goes_first });
        assert_eq!(course(1, 5, &[granted(1), granted(1), busy(2), busy(2), busy(3)]), split(true));
        assert_eq!(course(2, 5, &[granted(1), granted(1), busy(1), busy(3), busy(1)]), split(false));
        assert_eq!(
            course(1, 5, &[granted(1), granted(1), busy(2), busy(2), busy(2)]),
            Course::Failed(Defeat::Held)
        );
        let agreed = Vote::Busy { holder: Some(2), agreed: true };
        assert_eq!(course(1, 3, &[granted(1), busy(2), agreed]), Course::Failed(Defeat::Held));
    }

    #[test]
    fn what_is_left_of_a_released_lock_is_no_holder() {
        let left = Vote::Busy { holder: Some(1), agreed: true };
        let split = |goes_first| Course::Failed(Defeat::Split { goes_first });
        assert_eq!(course(2, 3, &[granted(1), busy(3), left.clone()]), split(true));
        assert_eq!(course(3, 3, &[busy(2), granted(1), left.clone()]), split(false));
        let doubtful = Course::Failed(Defeat::Doubtful);
        assert_eq!(
            course(2, 3, &[granted(1), Vote::Silent, left.clone()]),
            doubtful,
            "the silent one may be its"
        );
        let far = course(2, 5, &[granted(1), granted(1), Vote::Silent, busy(3), left.clone()]);
        assert_eq!(far, split(true), "two nodes are no majority");
        let unknown = Vote::Busy { holder: None, agreed: false };
        assert_eq!(course(2, 3, &[granted(1), unknown, left]), Course::Failed(Defeat::Held));
    }

    #[test]
    fn a_token_counts_once_a_majority_took_it_over() {
        let mut ballot = Ballot::new(1, 3);
        ballot.vote(0, granted(5));
        ballot.vote(1, granted(6));
        assert_eq!(ballot.propose(6), [0, 1]);
        ballot.confirm(0, true);
        ballot.confirm(1, false);
        assert_eq!(ballot.course(), Course::Wait, "the third may still grant");
        ballot.vote(2, granted(4));
        ballot.confirm(2, true);
        assert_eq!(ballot.course(), Course::Won(6));
        let mut late = Ballot::new(1, 3);
        late.vote(0, granted(5));
        late.vote(1, granted(6));
        late.propose(6);
        late.confirm(0, true);
        late.close();
        assert_eq!(late.course(), Course::Failed(Defeat::Disagreed));
    }
}

//! When the command is told to end, and when it is ended.

use std::time::Duration;

use distlock::Instant;

use super::on_lost::OnLost;

/// The command is dead this much before its lock's validity ends, as a share of the ttl, so that the
/// kill itself has time to take effect.
const LEAD_SHARE: u32 = 20;
/// At most so much.
const LEAD_MOST: Duration = Duration::from_millis(50);

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// Nothing: the lock is held, with time to spare.
    Nothing,
    /// The lock can't be kept any more: the command must be told to end, or the loss be told.
    Terminate,
    /// The command must be ended.
    Kill,
}

/// The times that follow from a lease's validity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timetable {
    on_lost: OnLost,
    grace: Duration,
    lead: Duration,
    valid_until: Instant,
    lost_at: Option<Instant>,
}

impl Timetable {
    /// For a lease of `ttl` that is valid until `valid_until`.
    pub(super) fn new(on_lost: OnLost, ttl: Duration, grace: Duration, valid_until: Instant) -> Self {
        Self { on_lost, grace, lead: (ttl / LEAD_SHARE).min(LEAD_MOST), valid_until, lost_at: None }
    }

    /// What a loss means for the command.
    pub(super) const fn on_lost(&self) -> OnLost {
        self.on_lost
    }

    /// The lease was renewed. It is of no use to a lock that is lost.
    pub(super) fn renewed(&mut self, valid_until: Instant) {
        if self.lost_at.is_none() {
            self.valid_until = self.valid_until.max(valid_until);
        }
    }

    /// The lock is definitely lost, seen at `now`.
    pub(super) fn lost(&mut self, now: Instant) {
        self.lost_at.get_or_insert(now);
    }

    /// Whether the lock was lost although its validity had not ended.
    pub(super) fn was_taken(&self) -> bool {
        self.lost_at.is_some_and(|lost| lost < self.valid_until)
    }

    /// When the command is dead at the latest.
    pub(super) fn kill_at(&self) -> Instant {
        if self.on_lost != OnLost::Kill {
            return Instant::FAR;
        }
        let by_validity = self.valid_until.minus(self.lead);
        match self.lost_at {
            Some(lost) => by_validity.min(lost.plus(self.grace)),
            None => by_validity,
        }
    }

    /// When somebody else must have done what is left to do, should this process not get to it.
    pub(super) fn act_at_latest(&self) -> Instant {
        match self.on_lost {
            OnLost::Kill => self.kill_at().plus(self.lead / 2),
            OnLost::Signal => self.terminate_at().plus(self.grace),
            OnLost::Warn => Instant::FAR,
        }
    }

    /// When it is told to end, or the loss is told.
    pub(super) fn terminate_at(&self) -> Instant {
        let by_validity = match self.on_lost {
            OnLost::Kill | OnLost::Signal => self.valid_until.minus(self.lead).minus(self.grace),
            OnLost::Warn => self.valid_until,
        };
        self.lost_at.map_or(by_validity, |lost| lost.min(by_validity))
    }

    pub(super) fn due(&self, now: Instant) -> Due {
        if now >= self.kill_at() {
            Due::Kill
        } else if now >= self.terminate_at() {
            Due::Terminate
        } else {
            Due::Nothing
        }
    }

    /// How long until the next thing is due; `None` if nothing is left.
    pub(super) fn until_next(&self, now: Instant) -> Option<Duration> {
        match self.due(now) {
            Due::Nothing => Some(self.terminate_at().since(now)),
            Due::Terminate if self.on_lost == OnLost::Kill => Some(self.kill_at().since(now)),
            Due::Terminate | Due::Kill => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn table() -> Timetable {
        Timetable::new(OnLost::Kill, 30 * SECOND, 5 * SECOND, at(100))
    }

    #[test]
    fn without_renewal_it_ends_before_validity_does() {
        let table = table();
        assert_eq!(table.due(at(94)), Due::Nothing);
        assert_eq!(table.due(at(95)), Due::Terminate);
        assert_eq!(table.due(at(99)), Due::Terminate);
        assert_eq!(table.due(at(100).minus(LEAD_MOST)), Due::Kill);
        assert_eq!(table.until_next(at(90)), Some(5 * SECOND - LEAD_MOST));
        assert_eq!(table.until_next(at(100)), None);
    }

    #[test]
    fn a_renewal_moves_everything_and_an_old_one_nothing() {
        let mut table = table();
        table.renewed(at(110));
        table.renewed(at(105));
        assert_eq!(table.due(at(104)), Due::Nothing);
        assert_eq!(table.due(at(105)), Due::Terminate);
    }

    #[test]
    fn a_definite_loss_starts_the_grace_at_once() {
        let mut table = table();
        table.lost(at(80));
        table.lost(at(84));
        table.renewed(at(200));
        assert_eq!(table.due(at(80)), Due::Terminate);
        assert_eq!(table.due(at(84)), Due::Terminate);
        assert_eq!(table.due(at(85)), Due::Kill);
        assert!(table.was_taken());
    }

    #[test]
    fn a_late_loss_does_not_prolong() {
        let mut table = table();
        table.lost(at(99));
        assert_eq!(table.due(at(100).minus(LEAD_MOST)), Due::Kill);
    }

    #[test]
    fn a_short_ttl_has_a_short_lead() {
        let table = Timetable::new(OnLost::Kill, Duration::from_millis(100), Duration::ZERO, at(100));
        assert_eq!(table.kill_at(), at(100).minus(Duration::from_millis(5)));
        assert_eq!(table.due(at(99)), Due::Nothing);
    }
    #[test]
    fn who_is_only_told_is_never_killed() {
        let mut table = Timetable::new(OnLost::Signal, 30 * SECOND, 5 * SECOND, at(100));
        assert_eq!((table.due(at(94)), table.due(at(95))), (Due::Nothing, Due::Terminate));
        assert_eq!(table.due(at(1000)), Due::Terminate);
        assert_eq!(table.until_next(at(96)), None);
        assert!(table.act_at_latest() < at(100), "a stopped wrapper's command is told in time");
        table.lost(at(80));
        assert_eq!(table.due(at(80)), Due::Terminate);
    }

    #[test]
    fn a_loss_that_is_only_told_is_told_when_it_has_happened() {
        let mut table = Timetable::new(OnLost::Warn, 30 * SECOND, 5 * SECOND, at(100));
        assert_eq!((table.due(at(99)), table.due(at(100))), (Due::Nothing, Due::Terminate));
        assert_eq!(table.act_at_latest(), Instant::FAR);
        table.lost(at(80));
        assert_eq!(table.due(at(81)), Due::Terminate);
    }
}

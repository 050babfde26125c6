//! One entry of the suite.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use distlock_core::{BackendInfo, Fairness};

use crate::context::Context;
use crate::faults::FaultAbilities;
use crate::subject::Subject;

type Run = for<'a> fn(&'a Context) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One promise, tested in one way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// `group::name`, unique and stable.
    pub(crate) id: &'static str,
    /// The version of the suite that brought it.
    pub(crate) since: &'static str,
    needs: &'static [Need],
    /// It uses the whole machine or hurts the whole store, so that no other case may run beside it.
    pub(crate) alone: bool,
    pub(crate) limit: Duration,
    pub(crate) run: Run,
}

impl Case {
    pub(crate) const fn new(id: &'static str, needs: &'static [Need], run: Run) -> Self {
        Self { id, since: "0.1.0", needs, alone: false, limit: Duration::from_secs(60), run }
    }

    pub(crate) const fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Whether it hurts the store or the way to it.
    pub(crate) fn stages_faults(&self) -> bool {
        self.needs.iter().any(|need| need.is_fault())
    }

    /// Why the case can't run on a store with this profile, if it can't.
    pub(crate) fn unmet(&self, profile: &Profile) -> Option<String> {
        let missing: Vec<_> = self.needs.iter().filter_map(|need| need.unmet(profile)).collect();
        (!missing.is_empty()).then(|| missing.join("; "))
    }
}

/// What a store declares.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) info: BackendInfo,
    pub(crate) faults: FaultAbilities,
}

impl Profile {
    pub(crate) fn of(subject: &dyn Subject) -> Self {
        let faults = subject.faults().map_or(FaultAbilities::NONE, |faults| faults.abilities());
        Self { info: subject.info(), faults }
    }
}

/// What a case needs of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Admin,
    Adopt,
    BatchRenew,
    Fifo,
    HandOver,
    LossPush,
    ManyHeld,
    NativeWait,
    NoAdmin,
    NoAdopt,
    NoQueue,
    Processes,
    Push,
    Queue,
    SurvivesDisconnect,
    SurvivesRestart,
    Aside,
    Duplicate,
    ExpireNow,
    HoldRequests,
    KeepsPlaces,
    LoseAnswer,
    Outage,
    Pause,
    Prune,
    ResetConnections,
    Restart,
    RestartWiped,
    Silence,
    SlowAnswers,
    TokensOutliveData,
}

impl Need {
    const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Duplicate
                | Self::HoldRequests
                | Self::LoseAnswer
                | Self::Outage
                | Self::Pause
                | Self::ResetConnections
                | Self::Restart
                | Self::RestartWiped
                | Self::Silence
                | Self::SlowAnswers
        )
    }

    fn unmet(self, profile: &Profile) -> Option<String> {
        let Profile { info, faults } = profile;
        let supports = info.supports;
        let (met, reason) = match self {
            Self::Admin => (supports.admin, "the store declares no admin"),
            Self::Adopt => (supports.adopt, "the store declares no adopt"),
            Self::BatchRenew => (supports.batch_renew, "the store declares no batch_renew"),
            Self::Fifo => {
                (info.guarantees.fairness >= Fairness::Fifo, "the store declares no order of waiters")
            }
            Self::HandOver => (supports.hand_over, "the store declares no hand_over"),
            Self::LossPush => (supports.loss_push, "the store declares no loss_push"),
            Self::NativeWait => (supports.native_wait, "the store declares no native_wait"),
            Self::NoAdopt => (!supports.adopt, "the store declares adopt"),
            Self::NoAdmin => (!supports.admin, "the store declares admin"),
            Self::NoQueue => (!supports.queue, "the store declares a queue"),
            Self::Processes => (supports.processes, "the store lives in one process"),
            Self::Push => (supports.push, "the store declares no push"),
            Self::Queue => (supports.queue, "the store declares no queue"),
            Self::ManyHeld => {
                (info.guarantees.held_most.is_none(), "the store declares how few locks may be held at once")
            }
            Self::SurvivesDisconnect => (
                info.guarantees.survives_disconnect,
                "the store declares that the end of a connection ends its locks",
            ),
            Self::SurvivesRestart => {
                let kept = info.guarantees.survives_restart || faults.holds_outlive_restart;
                (kept, "the store declares that a restart ends held locks")
            }
            Self::Aside => (faults.aside, "the subject can't hurt one client and spare another"),
            Self::Duplicate => (faults.duplicate, "the subject can't double requests on the wire"),
            Self::KeepsPlaces => (
                info.guarantees.keeps_places,
                "the store declares that a place is kept only for whoever asks again",
            ),
            Self::HoldRequests => (faults.hold_requests, "the subject can't hold requests back"),
            Self::Pause => (faults.pause, "the subject can't freeze its store"),
            Self::ResetConnections => (faults.reset_connections, "the subject can't reset connections"),
            Self::RestartWiped => (faults.restart_wiped, "the subject can't wipe its store"),
            Self::Silence => (faults.silence, "the subject can't silence the network"),
            Self::TokensOutliveData => {
                (faults.tokens_outlive_data, "the subject does not say that tokens outlive the data")
            }
            Self::ExpireNow => (faults.expire_now, "the subject can't end a lease at will"),
            Self::LoseAnswer => (faults.lose_answer, "the subject can't lose an answer"),
            Self::Outage => (faults.outage, "the subject can't stage an outage"),
            Self::Prune => (faults.prune, "the subject can't prune idle keys at will"),
            Self::Restart => (faults.restart, "the subject can't restart its store"),
            Self::SlowAnswers => (faults.slow_answers, "the subject can't slow down answers"),
        };
        (!met).then(|| reason.to_owned())
    }
}

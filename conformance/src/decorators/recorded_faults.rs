//! Faults whose outages are written down.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{LockKey, Operation};

use crate::faults::{FaultAbilities, Faults};
use crate::history::{Recorder, What};
use crate::subject::Subject;

/// A subject's faults; when its store stops and serves again is written into a history.
pub(crate) struct RecordedFaults {
    subject: Arc<dyn Subject>,
    log: Arc<Recorder>,
}

impl RecordedFaults {
    /// `None` if the subject has none.
    pub(crate) fn of(subject: &Arc<dyn Subject>, log: &Arc<Recorder>) -> Option<Self> {
        subject.faults().is_some().then(|| Self { subject: Arc::clone(subject), log: Arc::clone(log) })
    }

    fn faults(&self) -> &dyn Faults {
        self.subject.faults().expect("it had some")
    }

    fn record(&self, what: What) {
        self.log.record("", "", what);
    }
}

#[async_trait]
impl Faults for RecordedFaults {
    fn abilities(&self) -> FaultAbilities {
        self.faults().abilities()
    }

    fn exposed_url(&self) -> Option<String> {
        self.faults().exposed_url()
    }

    async fn expire_now(&self, key: &LockKey) {
        self.faults().expire_now(key).await;
    }

    async fn prune(&self) {
        self.faults().prune().await;
    }

    async fn restart(&self) {
        self.record(What::Down);
        self.faults().restart().await;
        self.record(What::Up);
    }

    async fn restart_wiped(&self) {
        self.record(What::Down);
        self.faults().restart_wiped().await;
        self.record(What::Up);
    }

    async fn pause(&self) {
        self.record(What::Down);
        self.faults().pause().await;
    }

    async fn slow_answers(&self, by: Duration) {
        self.faults().slow_answers(by).await;
    }

    async fn lose_answer(&self, operation: Operation) {
        self.faults().lose_answer(operation).await;
    }

    async fn outage(&self) {
        self.faults().outage().await;
    }

    async fn silence(&self) {
        self.faults().silence().await;
    }

    async fn silence_answers(&self) {
        self.faults().silence_answers().await;
    }

    async fn reset_connections(&self) {
        self.faults().reset_connections().await;
    }

    async fn hold_requests(&self) {
        self.faults().hold_requests().await;
    }

    async fn duplicate(&self) {
        self.faults().duplicate().await;
    }

    async fn heal(&self) {
        self.faults().heal().await;
        self.record(What::Up);
    }
}

//! Small transactions of several callers, sent as one.

use std::sync::Arc;

use distlock_core::{Asked, Gathering, Keyed, LockKey, Sending};
use etcd_client::{Txn, TxnOp};
use futures_util::future::{Either, join_all, select};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Failure, Verdict};
use crate::link::{Link, Repeat};
use crate::queue::Answer;

/// So many requests are under way before others gather: a server syncs several to its disk at once, so that one at a time
/// would leave it waiting.
const ABREAST: usize = 4;

/// So many transactions go into one. A server takes 128 operations in one by default (`--max-txn-ops`), and has to carry
/// it out in one go.
const MOST: usize = 32;

/// The way for transactions that concern one lock's records and are sent once.
#[derive(Debug)]
pub(crate) struct Together {
    link: Arc<Link>,
    gathering: Gathering<Change, Outcome>,
    abreast: Arc<Semaphore>,
}

#[derive(Debug)]
struct Change {
    key: LockKey,
    txn: Txn,
}

type Outcome = Result<Answer, Failure>;

impl Keyed for Change {
    fn key(&self) -> &LockKey {
        &self.key
    }
}

impl Together {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link, gathering: Gathering::default(), abreast: Arc::new(Semaphore::new(ABREAST)) }
    }

    /// Runs a transaction about the records of one lock: at once if few are under way, or if another one of that lock
    /// waits, and else with others that wait by then. It is never sent to another member if the first may have carried it out.
    ///
    /// Dropped before it was sent, it is left out.
    pub(crate) async fn txn(&self, key: &LockKey, txn: Txn) -> Outcome {
        if let Ok(_room) = self.abreast.try_acquire() {
            return self.link.txn(Repeat::Never, &txn).await;
        }
        let (reply, sending) = match self.gathering.ask(Change { key: key.clone(), txn }) {
            Ok(waits) => waits,
            Err(Change { txn, .. }) => return self.link.txn(Repeat::Never, &txn).await,
        };
        if let Some(sending) = sending {
            let (link, abreast) = (Arc::clone(&self.link), Arc::clone(&self.abreast));
            #[expect(
                clippy::disallowed_methods,
                reason = "serves several callers; it ends when nobody waits"
            )]
            tokio::spawn(send(link, abreast, sending));
        }
        reply.answer().await.map_err(Failure::cut_off)?
    }
}

async fn send(link: Arc<Link>, abreast: Arc<Semaphore>, mut sending: Sending<Change, Outcome>) {
    // More gather while it waits. Nobody closes the semaphore.
    while let Ok(room) = Arc::clone(&abreast).acquire_owned().await {
        let Some(asked) = sending.next(MOST) else { return };
        #[expect(
            clippy::disallowed_methods,
            reason = "serves several callers; it ends with its answer, or when all are gone"
        )]
        tokio::spawn(send_as_one(Arc::clone(&link), asked, room));
    }
}

async fn send_as_one(link: Arc<Link>, mut asked: Vec<Asked<Change, Outcome>>, _room: OwnedSemaphorePermit) {
    let answers = match &asked[..] {
        [one] => {
            let txn = one.change.txn.clone();
            let answer = async { link.txn(Repeat::Never, &txn).await.map(|answer| vec![answer]) };
            while_heard(&mut asked, answer).await
        }
        several => {
            let parts: Vec<_> = several.iter().map(|one| TxnOp::txn(one.change.txn.clone())).collect();
            let txn = Txn::new().and_then(parts);
            let answer = async { Ok(link.txn(Repeat::Never, &txn).await?.nested) };
            while_heard(&mut asked, answer).await
        }
    };
    match answers {
        None => {}
        Some(Ok(answers)) => {
            for (one, answer) in asked.into_iter().zip(answers) {
                one.tell(Ok(answer));
            }
        }
        // Nothing was changed, and one of them may be the cause: the others must not fail with it.
        Some(Err(failure))
            if asked.len() > 1 && matches!(failure.verdict, Verdict::NoLease | Verdict::Refused) =>
        {
            join_all(asked.into_iter().map(async |mut one| {
                let txn = one.change.txn.clone();
                let answer = while_heard(std::slice::from_mut(&mut one), link.txn(Repeat::Never, &txn)).await;
                answer.map(|answer| one.tell(answer))
            }))
            .await;
        }
        Some(Err(failure)) => asked.into_iter().for_each(|one| one.tell(Err(failure.clone()))),
    }
}

/// Does this for as long as anybody waits for the answer: as for a single caller, a member that does not answer is to be
/// found out when they give up.
async fn while_heard<T>(asked: &mut [Asked<Change, Outcome>], call: impl Future<Output = T>) -> Option<T> {
    let all_gone = async {
        for one in asked {
            one.unheard().await;
        }
    };
    match select(Box::pin(call), Box::pin(all_gone)).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
}

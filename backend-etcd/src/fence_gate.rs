//! Data in etcd that refuses writes from holders that came too late.

use std::sync::Arc;

use async_trait::async_trait;
use distlock_core::{
    Claim, Effect, Error, ErrorKind, FenceGate, FencingToken, LockKey, Operation, Result, stale_token,
};
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp, TxnResponse};

use crate::EtcdBackend;
use crate::backend::{NAME, connecting};
use crate::config::EtcdConfig;
use crate::error::unreadable;
use crate::link::{Link, Repeat};
use crate::probe::sign_of_life;
use crate::queue::{Answer, get};
use crate::store::Store;

/// A gate before data in etcd: it admits a write only with a token that is not below the newest seen, or
/// only while the lock is held.
///
/// The gate stands where the data is, which need not be where the lock is. [`write`](EtcdFenceGate::write)
/// keeps one small record for each key, under a name that starts with the namespace of the configuration,
/// and never drops it. [`write_while_held`](EtcdFenceGate::write_while_held) keeps nothing, and needs the lock to be
/// in the same cluster and namespace.
///
/// Both do check and write in one transaction; that is what stops a stale writer for good.
/// [`admit`](FenceGate::admit) alone leaves a gap between the two.
///
/// ```no_run
/// # async fn doc(guard: distlock_core::LockGuard) -> distlock_core::Result<()> {
/// use distlock_etcd::etcd_client::TxnOp;
/// use distlock_etcd::{EtcdConfig, EtcdFenceGate};
/// let gate = EtcdFenceGate::connect(EtcdConfig::new(["127.0.0.1:2379"])).await?;
/// gate.write(guard.key(), guard.token(), [TxnOp::put("balance/42", "100", None)]).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct EtcdFenceGate {
    store: Arc<Store>,
}

impl EtcdFenceGate {
    /// Connects to where the data is.
    ///
    /// # Errors
    /// As [`EtcdBackend::connect`].
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn connect(config: EtcdConfig) -> Result<Self> {
        let opened = async {
            config.check()?;
            let store = Store::new(Link::new(&config)?, &config)?;
            sign_of_life(&store).await?;
            Ok(Self { store })
        };
        opened.await.map_err(connecting)
    }

    /// Under which name the newest token of a lock's key is kept.
    #[must_use]
    pub fn fence_name(&self, key: &LockKey) -> Vec<u8> {
        self.store.names.fence(key)
    }

    /// Carries out `operations` if no higher token was seen for the lock `key`, in one transaction, and gives
    /// what they answered, in their order. The same token may write more than once.
    ///
    /// A server takes 128 operations in a transaction unless set up otherwise, of which the gate needs two.
    ///
    /// # Errors
    /// - `Lost` if a higher token was seen: whoever holds this one lost its lock. Nothing was written.
    /// - `Corrupt` if something else is under the gate's name.
    /// - `Unavailable` and the like, as with every operation; where the effect is not known, the write may be
    ///   repeated with the same token if the operations bear that.
    ///
    /// # Cancel safety
    /// Dropped midway, the write may still be carried out, or not.
    pub async fn write(
        &self,
        key: &LockKey,
        token: FencingToken,
        operations: impl IntoIterator<Item = TxnOp> + Send,
    ) -> Result<TxnResponse> {
        let fence = self.fence_name(key);
        let operations: Vec<_> = operations.into_iter().collect();
        let write = |mut operations: Vec<TxnOp>| {
            operations.push(TxnOp::put(fence.clone(), padded(token.get()), None::<PutOptions>));
            operations
        };
        // A record that is not there compares with nothing.
        let is_new = Compare::version(fence.clone(), CompareOp::Equal, 0);
        let is_not_higher = Compare::value(fence.clone(), CompareOp::Less, padded(token.get() + 1));
        let known = Txn::new()
            .when([is_not_higher])
            .and_then(write(operations.clone()))
            .or_else([get(fence.clone())]);
        let txn = Txn::new().when([is_new]).and_then(write(operations)).or_else([TxnOp::txn(known)]);
        let named = self.named(key);
        let response = self.run(&txn).await.map_err(&named)?;
        if response.succeeded() {
            return Ok(without_last(response));
        }
        let mut answers = response.op_responses();
        let Some(etcd_client::TxnOpResponse::Txn(known)) = answers.pop() else {
            return unreadable().map_err(named);
        };
        if known.succeeded() {
            return Ok(without_last(known));
        }
        let highest = Answer::from(known).ranges.pop().and_then(|mut found| found.pop());
        let highest = highest.and_then(|entry| std::str::from_utf8(&entry.value).ok()?.parse().ok());
        let highest = highest.and_then(FencingToken::new).filter(|highest| *highest > token);
        Err(named(highest.map_or_else(strange, |highest| stale_token(key, token, highest))))
    }

    /// Carries out `operations` if `claim` holds its lock with `token`, in one transaction, and gives what they
    /// answered, in their order. The lock must be in this cluster and namespace; of a client with a
    /// [`Namespace`](distlock_core::Namespace), `claim` names the outer key.
    ///
    /// A server takes 128 operations in a transaction unless set up otherwise.
    ///
    /// # Errors
    /// - `Lost` if the claim does not hold the lock with that token. Nothing was written.
    /// - `Unavailable` and the like, as with every operation.
    ///
    /// # Cancel safety
    /// Dropped midway, the write may still be carried out, or not.
    pub async fn write_while_held(
        &self,
        claim: &Claim,
        token: FencingToken,
        operations: impl IntoIterator<Item = TxnOp> + Send,
    ) -> Result<TxnResponse> {
        let named = self.named(&claim.key);
        let record = self.store.names.record(claim);
        let operations: Vec<_> = operations.into_iter().collect();
        let mut base = self.store.floor.seen().value;
        // The second time it is known what the record's token counts from.
        for _ in 0..2 {
            let Some(created) = token.get().checked_sub(base).and_then(|created| i64::try_from(created).ok())
            else {
                break;
            };
            let is_held = Compare::create_revision(record.clone(), CompareOp::Equal, created);
            let otherwise = [get(record.clone())];
            let txn = Txn::new().when([is_held]).and_then(operations.clone()).or_else(otherwise);
            let response = self.run(&txn).await.map_err(&named)?;
            if response.succeeded() {
                return Ok(response);
            }
            let found = Answer::from(response).ranges.pop().and_then(|mut found| found.pop());
            match found.and_then(|entry| entry.record().ok()) {
                Some(record) if record.base != base => base = record.base,
                _ => break,
            }
        }
        Err(named(
            Error::new(ErrorKind::Lost, format!("token {token} is refused: its lock is not held any more"))
                .with_effect(Effect::None),
        ))
    }

    async fn run(&self, txn: &Txn) -> Result<TxnResponse> {
        let run = |client: &etcd_client::Client| {
            let (mut kv, txn) = (client.kv_client(), txn.clone());
            async move { kv.txn(txn).await }
        };
        Ok(self.store.link.call(Repeat::Never, run).await?)
    }

    fn named(&self, key: &LockKey) -> impl Fn(Error) -> Error + use<> {
        let key = key.clone();
        move |error| error.on_backend(NAME).in_operation(Operation::Fence).for_key(&key)
    }
}

#[async_trait]
impl FenceGate for EtcdFenceGate {
    async fn admit(&self, key: &LockKey, token: FencingToken) -> Result<()> {
        self.write(key, token, []).await.map(drop)
    }
}

impl EtcdBackend {
    /// A gate for data that is in the same cluster as the locks; it shares the connection, and ends with
    /// [`close`](distlock_core::LockBackend::close).
    #[must_use]
    pub fn fence_gate(&self) -> EtcdFenceGate {
        EtcdFenceGate { store: Arc::clone(&self.store) }
    }
}

/// Numbers of one length compare as texts as they do as numbers.
fn padded(number: u64) -> String {
    format!("{number:020}")
}

/// The gate's own part comes last.
fn without_last(mut response: TxnResponse) -> TxnResponse {
    response.0.responses.pop();
    response
}

fn strange() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "what is under the gate's name is no token; see who else uses this namespace, then delete it",
    )
    .with_effect(Effect::None)
}

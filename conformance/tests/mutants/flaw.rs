//! What can be wrong with a store.

/// One fault in a store that is otherwise sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The sound store, to show that the suite has no false alarms.
    None,
    /// Releases whatever lock the key names.
    UnlockIgnoresTheOwner,
    /// Renews by writing the record anew.
    RenewRecreates,
    /// Sets the expiry to now plus the wish, also when that is sooner.
    RenewShortens,
    /// Draws a new token with each renewal.
    RenewDrawsAToken,
    /// Stores half the ttl that it states.
    TtlIsHalved,
    /// Lets leases end after 70 % of their time.
    ExpiresEarly,
    /// Never lets a lease end.
    NeverExpires,
    /// Rounds ttls down to whole seconds.
    TtlIsRoundedDown,
    /// Keeps the token in the record, and drops the record on release.
    TokenGoesWithTheRecord,
    /// Forgets the token of an idle key when pruning.
    TokenGoesWithPruning,
    /// Draws no new token after a forced release.
    ForcedReleaseKeepsTheToken,
    /// Forgets the floor.
    FloorIsIgnored,
    /// Gives a repeat of an attempt a new token.
    RepeatDrawsAToken,
    /// Finds a repeat of an attempt busy.
    RepeatIsBusy,
    /// Counts the validity from the answer.
    ValidityFromTheAnswer,
    /// Waits for the release and takes the lock without looking again.
    GrantWithoutLooking,
    /// Checks and writes in two steps.
    CheckThenAct,
    /// Says busy when the store can't be reached.
    TroubleIsBusy,
    /// Says busy when the answer was lost.
    LostAnswerIsBusy,
    /// Says released, and keeps the lock.
    ReleasedButKept,
    /// Says released to everybody.
    AlwaysReleased,
    /// Does not tell a stolen lock from an expired one.
    StolenIsExpired,
    /// Passes a lock on with the token that it had.
    HandOverKeepsTheToken,
    /// Passes a lock on that is not held any more.
    HandOverIgnoresTheOwner,
    /// Compares keys without regard to case.
    KeysAreLowercased,
    /// Ends keys at a NUL.
    KeysEndAtNul,
    /// Takes the prefix of a list for a pattern.
    PrefixIsAPattern,
    /// Puts a plain try into the queue.
    PlainTryQueues,
    /// Lets a plain try pass the queue.
    PlainTryPasses,
    /// Leaves a waiter that gave up in the queue.
    QuittersStay,
    /// Serves the last waiter first, and declares the opposite.
    LastInFirstOut,
    /// Declares a push that never comes.
    NoPush,
    /// Misses a release between the answer and the watch.
    PushIgnoresTheCursor,
    /// Shows holders whose lease is over.
    ShowsTheExpired,
    /// Answers a batch in another order.
    BatchOutOfOrder,
    /// Takes ttls of nothing.
    TakesAnyTtl,
    /// Says renewed when it can't be reached.
    TroubleIsRenewed,
    /// Says lost when it can't be reached.
    OutageIsALoss,
    /// Takes an outage for something that no retry cures.
    OutageIsFatal,
    /// Stays away after the first outage.
    NeverReconnects,
    /// Declares that holds survive a restart, and forgets them.
    HoldsGoWithARestart,
    /// Forgets tokens in a restart and with the data, and declares the opposite.
    TokensGoWithTheData,
    /// Behind TCP: does not connect again when its connection broke.
    BreaksForGood,
    /// Behind TCP: takes a broken connection for a lost lock.
    ResetIsALoss,
    /// Behind TCP: takes a broken connection for a busy lock.
    ResetIsBusy,
    /// Behind TCP: after a call that was dropped midway, takes its answer for that of the next call.
    ReadsTheLastAnswer,
}

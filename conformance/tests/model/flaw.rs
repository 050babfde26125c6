//! What can be wrong.

use crate::properties::{ENDED, EXCLUSION, FENCE, FREE, NOT_RECREATED, OWNERS, SAME_TOKEN, TOKENS};

/// One fault in a protocol that is otherwise sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The protocol as it is.
    None,
    /// The store renews whatever the key holds.
    RenewIgnoresTheOwner,
    /// The store releases whatever the key holds.
    UnlockIgnoresTheOwner,
    /// A renewal that finds nothing makes a record.
    RenewRecreates,
    /// A repeat of an attempt draws another token.
    RepeatDrawsAToken,
    /// The counter ends with the record.
    TokensStartAgain,
    /// A record stays when its time is over.
    NeverExpires,
    /// The client counts its validity from the answer.
    ValidityCountsFromTheAnswer,
    /// The client leaves no margin for clocks of different rates.
    NoMargin,
    /// The client goes on renewing what it gives up.
    RenewalOutlivesTheRelease,
    /// The client takes the first answered release for the last one needed.
    SweptOnce,
}

/// Each flaw with the world in which it shows, and the properties that it breaks there.
pub(crate) const MEANT: &[(Flaw, &str, &[&str])] = &[
    (Flaw::RenewIgnoresTheOwner, "three clients", &[OWNERS]),
    (Flaw::UnlockIgnoresTheOwner, "three clients", &[OWNERS, EXCLUSION]),
    (Flaw::RenewRecreates, "three clients", &[NOT_RECREATED]),
    (Flaw::RepeatDrawsAToken, "clocks of different rates", &[SAME_TOKEN]),
    (Flaw::TokensStartAgain, "a resource", &[TOKENS, FENCE]),
    (Flaw::NeverExpires, "three clients", &[FREE]),
    (Flaw::ValidityCountsFromTheAnswer, "three clients", &[EXCLUSION]),
    (Flaw::NoMargin, "clocks of different rates", &[EXCLUSION]),
    (Flaw::RenewalOutlivesTheRelease, "three clients", &[ENDED]),
    (Flaw::SweptOnce, "records that stay", &[FREE]),
];

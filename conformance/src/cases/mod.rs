//! The cases, a file for each group. A case is a plain async function that panics when the store
//! breaks the promise; a function that is missing from its file's table is a compiler warning.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::case::{Case, Need};
use crate::context::Context;
use crate::steps::{
    assert_not_early, goes_on_waiting, held, lost, refused, renewable, take, take_again, take_within, until,
    works_again,
};

/// Lists a group's cases: `name`, `name @alone`, `name [Need, Need]`.
macro_rules! cases {
    ($group:literal: $($name:ident $(@$flag:ident)* $([$($need:ident),+])?),+ $(,)?) => {
        pub(super) const CASES: &[Case] = &[$(
            Case::new(concat!($group, "::", stringify!($name)), &[$($(Need::$need),+)?], |ctx| Box::pin($name(ctx)))
                $(.$flag())*,
        )+];
    };
}

mod admin;
mod ambiguity;
mod cancellation;
mod capabilities;
mod chaos;
mod crash;
mod errors;
mod exclusion;
mod expiry;
mod fairness;
mod fencing;
mod guard;
mod handing_over;
mod hints;
mod limits;
mod loss;
mod names;
mod network;
mod renewal;
mod server;
mod shutdown;
mod timeouts;
mod unlock;
mod waiting;
mod watchdog;
mod wire;

const GROUPS: &[&[Case]] = &[
    exclusion::CASES,
    fencing::CASES,
    expiry::CASES,
    renewal::CASES,
    unlock::CASES,
    handing_over::CASES,
    guard::CASES,
    watchdog::CASES,
    loss::CASES,
    waiting::CASES,
    timeouts::CASES,
    hints::CASES,
    fairness::CASES,
    cancellation::CASES,
    ambiguity::CASES,
    crash::CASES,
    network::CASES,
    wire::CASES,
    server::CASES,
    chaos::CASES,
    shutdown::CASES,
    names::CASES,
    limits::CASES,
    admin::CASES,
    errors::CASES,
    capabilities::CASES,
];

/// All cases; those that must run alone come last.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    let cases = || GROUPS.iter().copied().flatten();
    cases().filter(|case| !case.alone).chain(cases().filter(|case| case.alone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_unique_and_plenty() {
        let ids: Vec<_> = all().map(|case| case.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert!(ids.len() >= 70, "{}", ids.len());
    }
}

//! What must always hold, and what must be possible lest the model show nothing.

use stateright::Property;

use crate::client::Phase;
use crate::store::Request;
use crate::world::{Message, State, World, Wrong};

pub(crate) const EXCLUSION: &str = "no two clients rely on the lock at once";
pub(crate) const TOKENS: &str = "every grant has a token above all before";
pub(crate) const SAME_TOKEN: &str = "a holder's token is the store's";
pub(crate) const OWNERS: &str = "no renewal or release touches what another owner holds";
pub(crate) const NOT_RECREATED: &str = "no renewal makes a record";
pub(crate) const FENCE: &str = "no write of an older grant is accepted after one of a later";
pub(crate) const ENDED: &str = "nobody renews what it gave up";
pub(crate) const FREE: &str = "when all is done the lock is free";

/// Every property by its name.
pub(crate) fn all(world: &World) -> Vec<Property<World>> {
    let mut all = vec![
        Property::always(EXCLUSION, |_, state: &State| {
            state.clients.iter().filter(|client| client.holds()).count() <= 1
        }),
        Property::always(TOKENS, |_, state: &State| state.wrong != Some(Wrong::TokenNotHigher)),
        Property::always(SAME_TOKEN, |_, state: &State| has_the_same_token(state)),
        Property::always(OWNERS, |_, state: &State| state.wrong != Some(Wrong::TouchedAnother)),
        Property::always(NOT_RECREATED, |_, state: &State| state.wrong != Some(Wrong::Recreated)),
        Property::always(FENCE, |_, state: &State| state.wrong != Some(Wrong::StaleWriteAccepted)),
        Property::always(ENDED, |_, state: &State| state.wrong != Some(Wrong::RenewedAfterwards)),
        Property::always(FREE, |world: &World, state: &State| {
            state.store.record.is_none() || !world.is_quiet(state)
        }),
        Property::sometimes("everybody is served", |world: &World, state: &State| {
            state.store.grants >= world.clients
        }),
        Property::sometimes("a claim is given up and granted afterwards", |_, state: &State| {
            let gone = |owner: u8| {
                matches!(state.clients[usize::from(owner)].phase, Phase::Leaving { .. } | Phase::Gone)
            };
            state.store.record.is_some_and(|record| gone(record.owner))
        }),
    ];
    if world.expires {
        all.extend([
            Property::sometimes("a renewal is overtaken by another's grant", |_, state: &State| {
                is_overtaken(state, Request::Renew)
            }),
            Property::sometimes("a release is overtaken by another's grant", |_, state: &State| {
                is_overtaken(state, Request::Unlock)
            }),
        ]);
    }
    if world.writes {
        all.push(Property::sometimes(
            "a holder that paused writes after its successor",
            |_, state: &State| {
                let stale = |grant| grant < state.resource.grant;
                state.clients.iter().any(|client| client.writing.is_some_and(|(_, grant)| stale(grant)))
            },
        ));
    }
    all
}

fn has_the_same_token(state: &State) -> bool {
    let Some(record) = state.store.record else { return true };
    match state.clients[usize::from(record.owner)].phase {
        Phase::Holding { token, left: 1.., .. } => token == record.token,
        _ => true,
    }
}

fn is_overtaken(state: &State, wanted: Request) -> bool {
    let Some(record) = state.store.record else { return false };
    let other = |message: &Message| match message {
        Message::Request { owner, request, .. } => *request == wanted && *owner != record.owner,
        Message::Answer { .. } => false,
    };
    state.flying.iter().any(other)
}

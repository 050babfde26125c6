//! Clients differ in nothing but their numbers, so states that differ in those alone are explored once.

use crate::client::Client;
use crate::store::Record;
use crate::world::{Message, State};

/// The same state with its clients in an order that depends on what they do.
pub(crate) fn representative(state: &State) -> State {
    let mut order: Vec<u8> = (0_u8..).take(state.clients.len()).collect();
    order.sort_by_cached_key(|number| standing(state, *number));
    let mut new_number = vec![0; order.len()];
    for (new, old) in (0_u8..).zip(&order) {
        new_number[usize::from(*old)] = new;
    }
    let renumbered = |owner: u8| new_number[usize::from(owner)];
    let mut flying: Vec<Message> =
        state.flying.iter().map(|message| message.of(renumbered(message.owner()))).collect();
    flying.sort_unstable();
    let mut same = state.clone();
    same.flying = flying;
    same.store.record = state.store.record.map(|record| Record { owner: renumbered(record.owner), ..record });
    same.clients = order.iter().map(|old| state.clients[usize::from(*old)]).collect();
    same
}

/// Everything that tells a client from another.
fn standing(state: &State, number: u8) -> (Client, bool, Vec<Message>) {
    let own = state.store.record.is_some_and(|record| record.owner == number);
    let messages = state.flying.iter().filter(|message| message.owner() == number);
    (state.clients[usize::from(number)], own, messages.map(|message| message.of(0)).collect())
}

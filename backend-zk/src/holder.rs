//! Who holds a lock, as its node says.

use distlock_core::{Holder, OwnerId};

use crate::floor::Floor;
use crate::names::Contender;
use crate::record::Record;
use crate::session::Node;

/// The holder whose node is at the head of a queue.
pub(crate) fn of(first: &Contender, node: &Node, floor: &Floor) -> Option<Holder> {
    // Another program's holder without an id is shown as nobody in particular.
    let owner = first.owner.or_else(|| OwnerId::from_bytes(&[0; 16]))?;
    let holder = Holder::new(owner, floor.token(node.czxid)?);
    Some(match Record::decode(&node.data) {
        Some(record) => holder.metadata(record.metadata),
        None => holder,
    })
}

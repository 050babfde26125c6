//! Which node has which slots.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use redis::RedisError;

use super::listing::Listing;
use crate::connection::Server;

/// Which node has which of the slots that locks live in.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) owners: BTreeMap<u16, Arc<Owner>>,
    /// The same of slots that hold something else, which somebody asked for.
    pub(super) others: BTreeMap<u16, Arc<Owner>>,
    /// All nodes, to ask them.
    pub(super) nodes: HashSet<String>,
    /// Why nothing is known.
    pub(super) trouble: Option<RedisError>,
    pub(super) is_closed: bool,
}

/// The node that has a slot.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) address: String,
    /// Since which epoch: whoever takes a slot over has a higher one than who had it.
    pub(super) epoch: u64,
    pub(super) server: Server,
}

impl View {
    /// The node that has the slot, or any where none is asked for.
    pub(super) fn owner(&self, slot: Option<u16>) -> Option<&Arc<Owner>> {
        match slot {
            Some(slot) => self.owners.get(&slot).or_else(|| self.others.get(&slot)),
            None => self.owners.values().next(),
        }
    }

    /// One of the nodes that have slots, another one at each turn.
    pub(super) fn any(&self, turn: usize) -> Option<Arc<Owner>> {
        let nodes: BTreeMap<_, _> = self.owners.values().map(|owner| (&owner.address, owner)).collect();
        nodes.values().nth(turn.checked_rem(nodes.len())?).map(|owner| Arc::clone(owner))
    }

    /// Takes in what nodes say: for each slot the owner of the highest epoch, and never an older one
    /// than is known, so that a node that was away and came back is not believed. An owner that denies
    /// it, by `denials`, or that no node lists any more, is none.
    pub(super) fn learn(
        &mut self,
        slots: impl Iterator<Item = u16>,
        listings: &[Listing],
        denials: &[(u16, String)],
        server: impl FnMut(&str) -> Option<Server>,
    ) {
        settle(&mut self.owners, slots, listings, denials, server);
        self.nodes = listings.iter().flat_map(|listing| &listing.nodes).cloned().collect();
        self.trouble = None;
    }

    /// The same for slots that hold something else than locks.
    pub(super) fn learn_others(
        &mut self,
        slots: impl Iterator<Item = u16>,
        listings: &[Listing],
        denials: &[(u16, String)],
        server: impl FnMut(&str) -> Option<Server>,
    ) {
        settle(&mut self.others, slots, listings, denials, server);
    }

    /// Whether each slot has the same owner in both.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let mut pairs = self.owners.iter().zip(&other.owners);
        self.owners.len() == other.owners.len()
            && pairs.all(|(one, two)| one.0 == two.0 && one.1.address == two.1.address)
    }
}

fn settle(
    owners: &mut BTreeMap<u16, Arc<Owner>>,
    slots: impl Iterator<Item = u16>,
    listings: &[Listing],
    denials: &[(u16, String)],
    mut server: impl FnMut(&str) -> Option<Server>,
) {
    let listed = |address: &str| listings.iter().any(|listing| listing.nodes.contains(address));
    for slot in slots {
        let newest =
            listings.iter().filter_map(|listing| listing.owner(slot)).max_by_key(|share| share.epoch);
        let Some(newest) = newest else { continue };
        let is_better = owners.get(&slot).is_none_or(|known| {
            let is_denied = denials.iter().any(|(denied, by)| *denied == slot && *by == known.address);
            newest.epoch > known.epoch
                || (newest.address != known.address && (is_denied || !listed(&known.address)))
        });
        if is_better && let Some(server) = server(&newest.address) {
            let owner = Owner { address: newest.address.clone(), epoch: newest.epoch, server };
            owners.insert(slot, Arc::new(owner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RedisConfig;
    use crate::connection::Opener;

    fn listing(shares: &[(u16, &str, u64)], also: &[&str]) -> Listing {
        let mut text = String::new();
        for (slot, address, epoch) in shares {
            text.push_str(&format!("id {address}@1 master - 0 0 {epoch} connected {slot}\n"));
        }
        for address in also {
            text.push_str(&format!("id {address}@1 slave x 0 0 0 connected\n"));
        }
        Listing::read(&text, "h:0", false)
    }

    fn server(address: &str) -> Option<Server> {
        Opener::new(&RedisConfig::default(), address).ok().map(Server::new)
    }

    fn learn(view: &mut View, listings: &[Listing], denials: &[(u16, String)]) {
        view.learn([1, 2].into_iter(), listings, denials, server);
    }

    fn owner(view: &View, slot: u16) -> &str {
        &view.owner(Some(slot)).unwrap().address
    }

    #[test]
    fn the_highest_epoch_counts_and_none_goes_back() {
        let mut view = View::default();
        let (old, new) =
            (listing(&[(1, "a:1", 1), (2, "a:1", 1)], &["b:1"]), listing(&[(1, "b:1", 4)], &["a:1"]));
        learn(&mut view, std::slice::from_ref(&old), &[]);
        assert_eq!(owner(&view, 1), "a:1");
        let before = view.clone();
        learn(&mut view, &[old.clone(), new], &[]);
        assert_eq!((owner(&view, 1), owner(&view, 2)), ("b:1", "a:1"));
        assert!(!view.agrees(&before) && view.agrees(&view.clone()));
        learn(&mut view, &[old], &[]);
        assert_eq!(owner(&view, 1), "b:1", "a node that was away is not believed");
    }

    #[test]
    fn who_denies_a_slot_or_has_gone_does_not_keep_it() {
        let mut view = View::default();
        learn(&mut view, &[listing(&[(1, "a:1", 9)], &[])], &[]);
        let other = listing(&[(1, "b:1", 2)], &["a:1"]);
        learn(&mut view, std::slice::from_ref(&other), &[(1, "c:1".to_owned()), (2, "a:1".to_owned())]);
        assert_eq!(owner(&view, 1), "a:1", "only the owner's own denial of this slot counts");
        learn(&mut view, &[other], &[(1, "a:1".to_owned())]);
        assert_eq!(owner(&view, 1), "b:1");
        learn(&mut view, &[listing(&[(1, "c:1", 1)], &[])], &[]);
        assert_eq!(owner(&view, 1), "c:1", "another Cluster stands where the first one stood");
    }
}

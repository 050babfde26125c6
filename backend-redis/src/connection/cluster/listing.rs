//! Reading what a node says about its Cluster.

use std::collections::HashSet;
use std::ops::RangeInclusive;

/// What one node says about its Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// All nodes that are not known to have failed.
    pub(super) nodes: HashSet<String>,
    /// Who has which slots, and since which epoch of the configuration.
    pub(super) shares: Vec<Share>,
}

/// Slots of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) slots: RangeInclusive<u16>,
    pub(super) address: String,
    pub(super) epoch: u64,
}

impl Listing {
    /// Reads an answer to `CLUSTER NODES`. A node that does not know its own host is at `asked`. Hosts
    /// are taken by name where `by_name`, since certificates name hosts. Source: "CLUSTER NODES", Redis documentation.
    pub(super) fn read(text: &str, asked: &str, by_name: bool) -> Self {
        let mut listing = Self::default();
        for line in text.lines() {
            let fields: Vec<_> = line.split_ascii_whitespace().collect();
            let [_id, address, flags, _master, _ping, _pong, epoch, _state, slots @ ..] = fields.as_slice()
            else {
                continue;
            };
            let has = |flag: &str| flags.split(',').any(|each| each == flag);
            if has("noaddr") || has("handshake") {
                continue;
            }
            let Some(address) = address_of(address, asked, by_name) else { continue };
            if !has("fail") {
                listing.nodes.insert(address.clone());
            }
            let (true, Ok(epoch)) = (has("master"), epoch.parse()) else { continue };
            // What stands in brackets is on its way from or to another node.
            let ranges = slots.iter().filter_map(|range| range_of(range));
            listing.shares.extend(ranges.map(|slots| Share { slots, address: address.clone(), epoch }));
        }
        listing
    }

    /// Who has the slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Share> {
        self.shares.iter().find(|share| share.slots.contains(&slot))
    }
}

/// `host:port@bus[,name[,…]]`, as `host:port`.
fn address_of(text: &str, asked: &str, by_name: bool) -> Option<String> {
    let mut parts = text.split(',');
    let (host, port) = parts.next()?.split('@').next()?.rsplit_once(':')?;
    let name = parts.next().filter(|name| by_name && !name.is_empty() && !name.contains('='));
    let host = name.unwrap_or(host);
    Some(match host {
        "" => format!("{}:{port}", asked.rsplit_once(':')?.0),
        host if host.contains(':') => format!("[{host}]:{port}"),
        host => format!("{host}:{port}"),
    })
}

fn range_of(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
        a1 :7000@17000 myself,master - 0 0 7 connected 0-5460 5462 [5463->-b2]\n\
        b2 10.0.0.2:7001@17001,two.example,shard-id=5 master - 0 1 2 connected 5461 5463-10922\n\
        c3 fe80::1:7002@17002 master,fail - 1 1 3 disconnected 10923-16383\n\
        d4 10.0.0.4:7003@17003,, slave a1 0 1 7 connected\n\
        e5 :0@0 slave,noaddr b2 0 1 7 disconnected\n";

    #[test]
    fn a_listing_tells_nodes_and_shares() {
        let listing = Listing::read(NODES, "first:7000", false);
        let nodes = ["first:7000", "10.0.0.2:7001", "10.0.0.4:7003"].map(str::to_owned);
        assert_eq!(listing.nodes, HashSet::from(nodes));
        let owner = |slot| listing.owner(slot).map(|share| (share.address.as_str(), share.epoch));
        assert_eq!(owner(5462), Some(("first:7000", 7)));
        assert_eq!(owner(5463), Some(("10.0.0.2:7001", 2)), "one that moves is still where it was");
        assert_eq!(owner(16383), Some(("[fe80::1]:7002", 3)));
        let named = Listing::read(NODES, "first:7000", true);
        assert_eq!(named.owner(5461).unwrap().address, "two.example:7001");
    }

    #[test]
    fn what_is_not_understood_is_passed_over() {
        assert_eq!(Listing::read("nonsense\n\na b c\n", "h:1", false), Listing::default());
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_listing_is_more_than_unknown(
            noise in any::<String>(),
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "id", "h:1@2", ":7@8", "h:1@2,name", "::1:6@7", "master", "slave", "fail,master", "0", "9-3",
                    "0-65536", "65535", "[3->-x]", "\n", "-", "connected", ",", "@",
                ]),
                0..60,
            ),
            by_name in any::<bool>(),
        ) {
            for text in [noise, words.join(" ")] {
                let listing = Listing::read(&text, "asked:6379", by_name);
                for slot in [0, 9, u16::MAX] {
                    prop_assert!(listing.owner(slot).is_none_or(|share| share.slots.contains(&slot)));
                }
            }
        }
    }
}

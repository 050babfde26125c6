//! The protocol of one key as a state machine, of which every reachable state is looked at.
//!
//! A store that judges expiry by its own clock; two or three clients with a claim each, that try, repeat, renew, give
//! up, and count their validity on their own clocks from when the acknowledged request left; a network that delays
//! messages for any time, delivers them in any order, twice or never; and between any two steps as much time as the
//! step's maker likes to pause. Time is in ticks. What must hold is in `properties.rs`, what is bounded in [`WORLDS`].
//!
//! The second half shows that the model can fail: each flawed variant of the protocol breaks the property that is
//! meant to see it, and the steps that lead there are printed with `--nocapture`.
//!
//! | file | holds |
//! |---|---|
//! | `store.rs` | what the store does with a request |
//! | `client.rs` | what a client knows |
//! | `world.rs` | who may take which step |
//! | `properties.rs` | what must hold, and what must be possible |
//! | `flaw.rs` | what can be wrong |
//! | `symmetry.rs` | which states are the same |
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a test rig: it fails by panicking")]

mod client;
mod flaw;
mod properties;
mod store;
mod symmetry;
mod world;

use std::collections::BTreeSet;

use stateright::{Checker, CheckerBuilder, HasDiscoveries, Model};

use crate::flaw::{Flaw, MEANT};
use crate::world::World;

const THREE: World = World {
    flaw: Flaw::None,
    clients: 3,
    expires: true,
    ttl: 2,
    repeats: 0,
    renewals: 1,
    doubles: 1,
    gain: 0,
    writes: false,
};

/// What is explored; together in about half a minute without optimisation.
const WORLDS: [(&str, World); 4] = [
    ("three clients", THREE),
    ("clocks of different rates", World { clients: 2, ttl: 3, gain: 1, repeats: 1, doubles: 0, ..THREE }),
    ("a resource", World { clients: 2, ttl: 3, gain: 1, writes: true, ..THREE }),
    ("records that stay", World { clients: 2, expires: false, repeats: 1, ..THREE }),
];

fn explorer(world: World) -> CheckerBuilder<World> {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    world.checker().threads(threads).symmetry_fn(symmetry::representative)
}

#[test]
fn every_state_of_every_world_is_as_it_must_be() {
    for (name, world) in WORLDS {
        let explored = explorer(world).finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
        println!("{name}: {} states", explored.unique_state_count());
        explored.assert_properties();
        assert!(explored.is_done(), "{name} is explored to its end");
    }
}

#[test]
fn every_flaw_breaks_the_property_that_is_meant_to_see_it() {
    for (flaw, name, properties) in MEANT {
        let (_, world) = WORLDS.iter().find(|(known, _)| known == name).expect("it is one of them");
        for property in *properties {
            let wanted = HasDiscoveries::AnyOf(BTreeSet::from([*property]));
            let explored = explorer(World { flaw: *flaw, ..*world }).finish_when(wanted).spawn_dfs().join();
            let steps = explored.discovery(property);
            println!("{flaw:?} breaks \"{property}\" by {:?}", steps.clone().map(|path| path.into_actions()));
            assert!(steps.is_some(), "{flaw:?} keeps the promise that {property}, in {name}");
        }
    }
}

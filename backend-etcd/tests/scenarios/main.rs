//! Faults that were reported against other lock libraries, and must not occur here.
//!
//! Each is known by a number. What no case of the conformance suite covers is a test here, on a real
//! server of its own, whose name begins with the number.
//!
//! | number | what went wrong elsewhere | covered by |
//! |---|---|---|
//! | B001 | after one failed renewal, later locks of the key are never renewed | `watchdog::a_lock_taken_again_is_renewed_again` |
//! | B004 | an attempt given up midway leaves a lock that nobody holds | `cancellation::a_lock_dropped_at_any_point_leaves_nothing`, with a shared lease `losing::b004` |
//! | B005 | a holder that is cut off works on, and wins the key back later | `network::b005_a_silenced_holder_is_succeeded`, `failover`: `minority` |
//! | B006 | silence is noticed after minutes | `network::b006_silence_ends_in_a_loss_by_the_deadline` |
//! | B017 | a holder whose renewals are refused never steps down | `operations`: `rights::a_holder_whose_right_is_taken_away_is_told_in_time` |
//! | B019 | a lease stays alive although the code that owned the lock died | `losing::b019` |
//! | B042 | the body runs although the lock was not taken | `waiting::b042` |
//! | B057 | a watch that is opened too late misses the release | `waiting::b057`, also after a compaction |
//! | B058 | a waiter whose lease is gone waits on for those before it | `waiting::b058` |
//! | B070 | a waiter whose lease is gone is told that it has the lock | `waiting::b070` |
//! | B071 | two get the lock after a waiter's lease was revoked | `waiting::b071` |
//! | B072 | a leader that stood still ends leases early | `failover`: `successors::b072_a_leader_that_stood_still_ends_no_lease_when_it_goes_on` |
//! | B074 | renewals end for good after a server's error or a change of the leader | `failover`: `members::b074_renewals_go_on_under_each_new_leader`, `network::resets_do_not_cost_the_lock` |
//! | B075 | renewals end when the server ends the stream normally | `losing::b075` |
//! | B076 | renewing a lease that is gone looks like a success | `losing::b076` |
//! | B078 | without a quorum the client reconnects without a pause | `losing::b078` |
//! | B079 | a record without a lease | `losing::b079` |
//! | B131 | names that the server chose are misread | no name here is chosen by the server: `names.rs` |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves several programs"
)]

mod losing;
#[path = "../support/mod.rs"]
mod support;
mod waiting;

fn main() -> std::process::ExitCode {
    support::main([losing::tests(), waiting::tests()].concat())
}

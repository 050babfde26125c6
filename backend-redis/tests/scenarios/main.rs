//! Faults that were reported against other lock libraries, and must not occur here.
//!
//! Each is known by a number. What no case of the conformance suite covers is a test here, on a real
//! server of its own, whose name begins with the number.
//!
//! | number | what went wrong elsewhere | covered by |
//! |---|---|---|
//! | B001 | after one failed renewal, later locks of the key are never renewed | `losing::b001`, `watchdog::a_lock_taken_again_is_renewed_again` |
//! | B002 | the same after the record was deleted | `losing::b002` |
//! | B003 | a released lock goes on being renewed | `losing::b003`, `watchdog::it_ends_with_the_release` |
//! | B004 | an attempt given up midway leaves a lock that nobody holds | `cancellation::a_lock_dropped_at_any_point_leaves_nothing` |
//! | B005 | a holder that is cut off works on, and wins the key back later | `network::b005_a_silenced_holder_is_succeeded`, `renewal::it_never_creates_a_lock` |
//! | B006 | silence is noticed after minutes | `network::b006_silence_ends_in_a_loss_by_the_deadline`, `server::a_frozen_server_holds_up_no_call` |
//! | B007 | a wrapped command outlives the lock | `distlock run`: `loss::b007_a_store_that_does_not_answer_ends_the_command_before_the_lock_is_over` |
//! | B017 | a holder whose renewals are refused never steps down | `losing::b017`, `loss::denied_renewals_say_so` |
//! | B018 | "store down" looks like "lock stolen" | `losing::b018` |
//! | B022 | a time limit on an attempt leaves a lock that nobody holds | `cancellation::b022_time_limits_of_all_lengths_leave_nothing` |
//! | B023 | a release given up midway can't be repeated | `cancellation::b023_a_release_dropped_at_any_point_still_happens` |
//! | B024 | a cancelled request keeps its lock until the ttl ends | `guard::b024_a_guard_in_an_aborted_task_releases` |
//! | B029 | a record does not tell whose it is | `records::b029` |
//! | B035 | after a failover a lock is held by nobody for ever | `failover`: `sentinel::b035_every_client_works_again_after_the_master_was_killed` |
//! | B036 | "replicated" although no replica has it | `failover`: `replicas::b036` |
//! | B044 | giving up looks like a fault of the network | `timeouts::b044_giving_up_says_who_holds_the_lock` |
//! | B045 | ttl and patience are one number | `timeouts::b045_ttl_and_patience_are_two_things` |
//! | B046 | a waiter that loses one race gives up early | `waiting::b046_losing_a_race_is_not_giving_up` |
//! | B048 | expired and stolen get the same answer | `unlock::b048_an_expired_and_a_stolen_lock_get_different_answers` |
//! | B050 | a release error hides the body's | `guard::b050_a_body_s_result_is_not_masked` |
//! | B052 | a fresh client misses the release | `hints::b052_a_fresh_client_misses_no_release` |
//! | B055 | subscriptions are never given back | `waiting::b055` |
//! | B060 | left-over wake-ups let waiters spin, or pile up | `waiting::b060` |
//! | B062 | who waits for long drops out of the queue | `queue`: `dying::b062` |
//! | B064 | a killed program's places block the queue for ever | `queue`: `dying::b064` |
//! | B079 | a record without an expiry | `records::b029` |
//! | B113 | braces in a key send a script's keys to several nodes | `failover`: `cluster::b113` |
//! | B114 | commands go to a replica after a switch | `failover`: `sentinel::b114` |
//! | B115 | a counter for each key stays for ever | `records::b115`, `fencing::tokens_rise_after_idle_keys_are_pruned` |
//! | B116 | the store evicts locks | `operations`: `probing::b116` |
//! | B118 | a record without an expiry blocks its key for ever | `records::b118` |
//! | B119 | owners are compared in another form than they are stored in | `connecting::b119` |
//! | B123 | a connection that broke once is broken for good | `connecting::b123`, `network::resets_do_not_cost_the_lock` |
//! | B124 | one time limit rules over another | `connecting::b124` |
//! | B125 | a replicated master is refused at the start | `operations`: `probing::b125` |
//! | B132 | dropping a guard without a runtime panics | `guard::b132_a_guard_dropped_outside_a_runtime_releases`, `shutdown::a_runtime_may_end_under_live_guards` |
//! | B133 | a late release frees a newer grant | `guard::a_guard_dropped_right_away_does_not_hurt_the_next`, `wire::a_late_release_leaves_the_successor_alone` |
//! | B134 | the last owner of a runtime goes inside a task | `shutdown::b134_the_last_client_may_go_inside_a_task` |
//! | B135 | tokens have no order | `fencing::b135_a_stale_token_is_refused_and_without_a_fence_an_update_is_lost`, `operations`: `fencing` |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves several programs"
)]

mod connecting;
mod losing;
mod records;
#[path = "../support/mod.rs"]
mod support;
mod waiting;

fn main() -> std::process::ExitCode {
    support::main([connecting::tests(), losing::tests(), records::tests(), waiting::tests()].concat())
}

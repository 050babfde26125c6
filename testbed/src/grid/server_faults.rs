//! Faults of servers and of the network: F09 to F20, F24 and F35.

use super::Class::{Absent as X, Delayed as D, Fenced as F, Safe as S, Unpromised as N};
use super::Evidence::{Case, Cell, Test};
use super::Store::{self, Etcd, Failover, Memory, Mysql, Postgres, Redis, Redlock, Sqlite, Zk};
use super::{ALONE, BETWEEN, FILE, Fault};

/// A test of a backend's program, about these stores.
const fn test(
    stores: &'static [Store],
    package: &'static str,
    program: &'static str,
    name: &'static str,
) -> super::Evidence {
    Test { stores, package, program, name }
}

pub(super) const ROWS: &[Fault] = &[
    Fault {
        id: "F09",
        title: "the server's wall clock jumps, forward and back",
        classes: [S, S, F, F, F, F, F, S, S],
        shown: &[
            Cell(&[Memory, Sqlite, Postgres, Mysql, Redis, Failover, Redlock, Zk]),
            test(&[Redis], "distlock-redis", "redis", "a_clock_set_back_prolongs_by_one_ttl_at_most"),
            test(&[Redis], "distlock-redis", "queue", "a_clock_set_forward_costs_places_and_nothing_else"),
            test(&[Sqlite], "distlock-sql", "sqlite", "a_wall_clock_set_back_does_not_set_tokens_back"),
        ],
        notes: &[
            (Memory, "the clock of the store is the client's"),
            (Sqlite, "the clock of the store is the client's"),
            (
                Failover,
                "run with Sentinel alone: a cluster takes such a jump for the silence of all its other servers",
            ),
            (Redlock, "the clocks of a minority do nothing; here all of them jump"),
            (
                Etcd,
                "not run: its program reads the clock past any shim, and counts leases by the monotonic one",
            ),
        ],
    },
    Fault {
        id: "F10",
        title: "a server is killed and restarted on its data",
        classes: [X, S, S, S, S, F, D, S, S],
        shown: &[
            Case("server::a_holder_goes_on_after_a_restart"),
            Case("server::a_waiter_rides_out_a_restart"),
            test(
                &[Sqlite],
                "distlock-sql",
                "sqlite",
                "a_file_whose_only_program_was_killed_keeps_its_lease_to_the_end",
            ),
            test(
                &[Sqlite],
                "distlock-sql",
                "sqlite",
                "a_lease_from_before_a_reboot_is_not_void_and_runs_out_after_its_ttl",
            ),
            test(
                &[Failover],
                "distlock-redis",
                "failover",
                "b035_every_client_works_again_after_the_master_was_killed",
            ),
            test(
                &[Failover],
                "distlock-redis",
                "failover",
                "b035_every_client_works_again_after_a_node_was_killed",
            ),
            test(
                &[Redlock],
                "distlock-redis",
                "redlock",
                "a_restarted_server_holds_off_although_it_kept_its_data",
            ),
            test(&[Zk], "distlock-zk", "operations", "a_restart_within_the_session_s_time_costs_no_lock"),
        ],
        notes: &[
            ALONE,
            (Sqlite, "its programs stand for the server; a reboot is another boot's number"),
            (Redis, "with `appendonly yes`; without it a restart frees locks, and the next token is higher"),
            (Failover, "the replica that takes over may lack the last grants"),
            (Redlock, "a restarted server abstains for a ttl, whatever it kept"),
        ],
    },
    Fault {
        id: "F11",
        title: "a server loses its data",
        classes: [F, F, F, F, F, F, F, N, N],
        shown: &[
            Case("server::a_holder_whose_record_is_gone_is_told"),
            Case("server::a_client_works_on_without_the_data"),
            Case("server::tokens_rise_without_the_data"),
            Cell(&[Failover]),
            test(&[Memory], "distlock-core", "rules", "a_store_made_later_starts_above_and_a_floor_is_kept"),
            test(
                &[Sqlite],
                "distlock-sql",
                "sqlite",
                "a_file_that_was_deleted_or_replaced_takes_no_more_locks",
            ),
            test(
                &[Redlock],
                "distlock-redis",
                "redlock",
                "a_majority_that_forgets_breaks_exclusion_and_tokens_rise",
            ),
            test(&[Redlock], "distlock-redis", "redlock", "a_server_without_its_data_holds_off"),
            test(
                &[Etcd],
                "distlock-etcd",
                "operations",
                "a_raised_floor_counts_for_waiters_and_keeps_the_holder_s_token",
            ),
            test(&[Zk], "distlock-zk", "operations", "a_raised_floor_counts_for_locks_of_all_programs"),
        ],
        notes: &[
            (Redlock, "a minority that loses its data does nothing"),
            (Etcd, "its numbers begin anew without its data: raise the token floor after such a loss"),
            (Zk, "its numbers begin anew without its data: raise the token floor after such a loss"),
        ],
    },
    Fault {
        id: "F12",
        title: "a server fails and another one takes over",
        classes: [X, X, F, F, X, F, X, S, S],
        shown: &[
            Cell(&[Postgres, Mysql, Failover]),
            test(
                &[Failover],
                "distlock-redis",
                "failover",
                "after_an_unsynced_failover_there_are_two_holders_and_the_second_has_the_higher_token",
            ),
            test(&[Postgres], "distlock-sql", "operations", "a_standby_that_lacks_a_grant_is_promoted"),
            test(&[Postgres], "distlock-sql", "operations", "a_synchronous_standby_is_promoted"),
            test(
                &[Etcd],
                "distlock-etcd",
                "failover",
                "every_client_works_again_after_the_leader_was_killed",
            ),
            test(&[Zk], "distlock-zk", "operations", "a_killed_leader_costs_no_lock"),
        ],
        notes: &[
            ALONE,
            FILE,
            (Postgres, "safe with a synchronous standby; the cell has an asynchronous one"),
            (Mysql, "the replica is asynchronous"),
            (Redis, "it is alone; with replicas it is `redis-failover`"),
            (Redlock, "its servers know nothing of each other"),
        ],
    },
    Fault {
        id: "F13",
        title: "the network is cut, in silence",
        classes: [X, X, D, D, D, F, D, D, D],
        shown: &[
            Cell(&[Postgres, Mysql]),
            Case("network::b006_silence_ends_in_a_loss_by_the_deadline"),
            Case("network::b005_a_silenced_holder_is_succeeded"),
            test(&[Failover], "distlock-redis", "failover", "a_master_that_comes_back_is_not_used"),
            test(&[Failover], "distlock-redis", "failover", "a_node_that_comes_back_is_not_used"),
            test(&[Redlock], "distlock-redis", "redlock", "no_promise_breaks_while_a_minority_is_hurt"),
            test(
                &[Etcd],
                "distlock-etcd",
                "failover",
                "a_client_of_the_minority_is_told_and_the_majority_goes_on",
            ),
            test(
                &[Etcd],
                "distlock-etcd",
                "failover",
                "a_lock_of_the_minority_goes_to_the_majority_with_a_higher_token",
            ),
            test(&[Zk], "distlock-zk", "operations", "a_leader_that_is_cut_off_breaks_no_promise"),
            test(
                &[Zk],
                "distlock-zk",
                "operations",
                "a_minority_that_is_cut_off_with_a_holder_breaks_no_promise",
            ),
        ],
        notes: &[ALONE, FILE, (Failover, "an old master without contact; a stopped one stands for it")],
    },
    Fault {
        id: "F14",
        title: "a server is slow, or stands still",
        classes: [D; 9],
        shown: &[
            Case("timeouts::a_backend_gives_up_at_its_deadline"),
            Case("ambiguity::a_late_grant_is_given_back"),
            Case("wire::a_grant_slower_than_its_ttl_is_given_back"),
            Case("server::a_frozen_server_holds_up_no_call"),
            test(
                &[Sqlite],
                "distlock-sql",
                "sqlite",
                "a_database_locked_for_long_is_unavailable_with_no_effect_and_comes_back",
            ),
            test(&[Redlock], "distlock-redis", "redlock", "b040_one_slow_server_holds_up_no_call"),
        ],
        notes: &[(Memory, BETWEEN), (Failover, BETWEEN)],
    },
    Fault {
        id: "F15",
        title: "a pool of connections is exhausted",
        classes: [X, D, D, D, X, X, X, X, X],
        shown: &[
            test(
                &[Postgres, Mysql],
                "distlock-sql",
                "servers",
                "a_pool_with_nothing_left_leaves_renewing_and_unlocking_alone",
            ),
            test(
                &[Postgres, Mysql],
                "distlock-sql",
                "servers",
                "held_up_attempts_leave_renewing_and_unlocking_alone",
            ),
            test(
                &[Sqlite],
                "distlock-sql",
                "sqlite",
                "b032_an_attempt_dropped_while_the_writer_is_busy_does_not_land_later",
            ),
        ],
        notes: &[
            ALONE,
            (Sqlite, "its one writer stands for the pool"),
            (Redis, "one connection carries all calls"),
            (Failover, "one connection a server carries all calls"),
            (Redlock, "one connection a server carries all calls"),
            (Etcd, "one connection a server carries all calls"),
            (Zk, "one session carries all calls"),
        ],
    },
    Fault {
        id: "F16",
        title: "fifty or more wait for one release",
        classes: [S, S, D, D, D, D, D, S, S],
        shown: &[
            Case("waiting::a_herd_asks_no_more_than_a_pair"),
            test(&[Redis], "distlock-redis", "queue", "a_crowd_without_a_queue_costs_one_attempt_a_program"),
            test(&[Postgres, Mysql], "distlock-sql", "servers", "a_herd_costs_few_statements"),
            test(&[Etcd], "distlock-etcd", "operations", "a_hand_over_in_a_herd_costs_four_requests_at_most"),
            test(
                &[Zk],
                "distlock-zk",
                "scenarios",
                "a_hand_over_in_a_crowd_wakes_one_and_costs_few_requests",
            ),
        ],
        notes: &[],
    },
    Fault {
        id: "F17",
        title: "somebody takes the lock again and again",
        classes: [S, S, D, D, D, D, D, S, S],
        shown: &[
            Case("fairness::a_fast_relocker_lets_other_clients_in"),
            Case("fairness::waiters_are_served_in_order"),
        ],
        notes: &[],
    },
    Fault {
        id: "F18",
        title: "a notification is lost",
        classes: [S, D, D, D, D, D, D, D, D],
        shown: &[
            Case("hints::mute_hints_cost_only_time"),
            Case("network::a_wake_up_lost_in_a_reset_costs_only_time"),
            Case("network::a_wake_up_lost_in_silence_costs_only_time"),
            test(&[Etcd], "distlock-etcd", "scenarios", "b057_nor_is_one_that_was_compacted_by_then"),
            test(&[Postgres], "distlock-sql", "servers", "a_listener_that_was_ended_listens_again"),
        ],
        notes: &[(Memory, BETWEEN), (Sqlite, BETWEEN), (Failover, BETWEEN), (Redlock, BETWEEN)],
    },
    Fault {
        id: "F19",
        title: "renewals go unanswered, or their stream ends",
        classes: [D; 9],
        shown: &[
            Case("watchdog::a_short_silence_is_survived"),
            Case("loss::silence_ends_in_a_loss_by_the_deadline"),
            Case("network::unanswered_renewals_end_in_a_loss_by_the_deadline"),
            test(
                &[Etcd],
                "distlock-etcd",
                "scenarios",
                "b075_a_server_that_ends_its_streams_normally_costs_no_lock",
            ),
            test(
                &[Zk],
                "distlock-zk",
                "scenarios",
                "b067_a_session_that_ends_in_silence_is_noticed_and_replaced",
            ),
        ],
        notes: &[(Memory, BETWEEN), (Sqlite, BETWEEN), (Failover, BETWEEN), (Redlock, BETWEEN)],
    },
    Fault {
        id: "F20",
        title: "a waiter's place or session ends while it waits",
        classes: [S, D, D, D, D, D, D, D, D],
        shown: &[
            Case("fairness::a_silent_waiter_blocks_nobody_for_long"),
            Case("crash::a_stopped_waiter_blocks_nobody_for_long"),
            test(&[Redis], "distlock-redis", "queue", "b062_waiters_that_wait_for_long_keep_their_places"),
            test(&[Etcd], "distlock-etcd", "scenarios", "b058_a_waiter_whose_lease_is_gone_queues_again"),
            test(
                &[Etcd],
                "distlock-etcd",
                "scenarios",
                "b070_a_waiter_whose_lease_is_gone_is_not_told_that_it_has_the_lock",
            ),
            test(&[Zk], "distlock-zk", "operations", "a_deleted_place_is_noticed_at_once"),
        ],
        notes: &[],
    },
    Fault {
        id: "F24",
        title: "the counter of tokens is lost",
        classes: [S, F, F, F, F, F, N, F, F],
        shown: &[
            Case("fencing::tokens_rise_after_idle_keys_are_pruned"),
            Case("fencing::a_raised_floor_is_kept"),
            Case("server::tokens_rise_without_the_data"),
            test(&[Sqlite], "distlock-sql", "sqlite", "a_power_cut_with_the_clock_set_back_repeats_no_token"),
            test(
                &[Sqlite],
                "distlock-sql",
                "sqlite",
                "a_missing_row_of_bounds_is_named_and_made_anew_above_all_tokens",
            ),
            test(
                &[Redlock],
                "distlock-redis",
                "redlock",
                "a_majority_that_forgets_breaks_exclusion_and_tokens_rise",
            ),
            test(&[Zk], "distlock-zk", "operations", "a_folder_deleted_and_made_again_keeps_tokens_rising"),
        ],
        notes: &[
            (Redlock, "tokens rise all the same while the servers' clocks agree"),
            (
                Etcd,
                "its counter is the store's revision, and goes with all data alone (F11), not by itself; raise the token floor \
                 after a restore from a backup",
            ),
            (Zk, "raise the token floor after a restore from a backup"),
        ],
    },
    Fault {
        id: "F35",
        title: "servers move, are replaced or change their roles",
        classes: [X, X, D, D, D, D, D, D, D],
        shown: &[
            test(&[Postgres, Mysql], "distlock-sql", "operations", "the_server_that_takes_writes_is_found"),
            test(
                &[Redis],
                "distlock-redis",
                "redis",
                "a_server_that_became_a_replica_is_left_for_who_stands_at_its_address_now",
            ),
            test(&[Failover], "distlock-redis", "failover", "locks_go_on_while_their_slot_moves"),
            test(
                &[Failover],
                "distlock-redis",
                "failover",
                "b114_a_switch_by_hand_shows_as_unavailable_at_most",
            ),
            test(&[Redlock], "distlock-redis", "redlock", "a_server_that_was_down_votes_when_it_is_back"),
            test(&[Etcd], "distlock-etcd", "failover", "every_client_works_on_while_each_member_is_replaced"),
            test(&[Etcd], "distlock-etcd", "failover", "b074_renewals_go_on_under_each_new_leader"),
            test(&[Zk], "distlock-zk", "scenarios", "b083_other_servers_cost_no_lock"),
        ],
        notes: &[ALONE, FILE, (Redlock, "a server that comes back stands for its successor")],
    },
];

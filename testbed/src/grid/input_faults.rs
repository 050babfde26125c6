//! Faults of what is put in, of rights, of sizes and of what stands in the way: F21 to F23, F25 to F34, F41 and F42.

use super::Class::{Absent as X, Delayed as D, Safe as S};
use super::Evidence::{Case, Cell, Test};
use super::Store::{self, Etcd, Failover, Memory, Mysql, Postgres, Redis, Redlock, Sqlite, Zk};
use super::{ALONE, FILE, Fault};

const FEW: &str = "not run: it is a single server's connection several times, and that is tested there";
const NO_EVICTION: &str = "it evicts nothing";

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
        id: "F21",
        title: "keys that look alike, or like commands",
        classes: [S; 9],
        shown: &[
            Case("names::torturous_keys_are_all_different"),
            Case("names::near_misses_are_all_different"),
        ],
        notes: &[],
    },
    Fault {
        id: "F22",
        title: "keys that are too long",
        classes: [S; 9],
        shown: &[
            Case("names::the_longest_keys_are_all_different"),
            Case("names::bad_keys_are_refused_before_any_io"),
        ],
        notes: &[],
    },
    Fault {
        id: "F23",
        title: "absurd ttls",
        classes: [S; 9],
        shown: &[
            Case("limits::absurd_ttls_are_refused_before_any_io"),
            Case("limits::the_longest_ttl_is_kept"),
            Case("expiry::the_shortest_ttl_ends_too"),
        ],
        notes: &[],
    },
    Fault {
        id: "F25",
        title: "the schema is missing, older, newer or read-only",
        classes: [X, D, D, D, D, D, X, X, D],
        shown: &[
            test(
                &[Sqlite],
                "distlock-sql",
                "sqlite",
                "b105_tables_that_are_gone_are_named_and_picked_up_when_they_come_back",
            ),
            test(&[Sqlite], "distlock-sql", "sqlite", "a_newer_layout_asks_for_an_upgrade"),
            test(&[Postgres, Mysql], "distlock-sql", "servers", "other_versions_are_refused"),
            test(&[Postgres, Mysql], "distlock-sql", "servers", "tables_that_go_are_made_anew"),
            test(&[Postgres], "distlock-sql", "servers", "b106_a_database_that_takes_no_writes_is_not_busy"),
            test(&[Mysql], "distlock-sql", "operations", "b106_a_server_that_takes_no_writes_is_not_busy"),
            test(&[Redis], "distlock-redis", "redis", "a_replica_grants_nothing"),
            test(
                &[Failover],
                "distlock-redis",
                "failover",
                "b114_a_switch_by_hand_shows_as_unavailable_at_most",
            ),
            test(&[Zk], "distlock-zk", "operations", "a_lock_s_node_may_go_between_its_making_and_a_place_s"),
        ],
        notes: &[
            (Memory, "there is no schema"),
            (Redis, "there is no schema; a replica takes no writes"),
            (Failover, "there is no schema; a master that became a replica takes no writes"),
            (Redlock, "there is no schema"),
            (Etcd, "there is no schema"),
            (Zk, "its schema is the locks' nodes, which the server deletes when they are empty"),
        ],
    },
    Fault {
        id: "F26",
        title: "rights are missing, or are taken away",
        classes: [X, D, D, D, D, D, D, D, D],
        shown: &[
            Case("loss::denied_renewals_say_so"),
            test(
                &[Sqlite],
                "distlock-sql",
                "sqlite",
                "files_and_folders_without_rights_are_permission_denied",
            ),
            test(&[Postgres, Mysql], "distlock-sql", "servers", "a_user_without_rights_is_told"),
            test(&[Redis], "distlock-redis", "redis", "a_wrong_password_is_named_and_not_shown"),
            test(&[Redis], "distlock-redis", "scenarios", "b017_a_holder_without_rights_steps_down"),
            test(&[Failover], "distlock-redis", "failover", "a_password_changes_on_all_nodes"),
            test(
                &[Etcd],
                "distlock-etcd",
                "operations",
                "a_holder_whose_right_is_taken_away_is_told_in_time",
            ),
            test(&[Zk], "distlock-zk", "operations", "nodes_for_their_creator_are_for_its_credentials_alone"),
        ],
        notes: &[
            ALONE,
            (
                Redlock,
                "within the client's process, between client and backend; a server's own refusal is tested with one",
            ),
        ],
    },
    Fault {
        id: "F27",
        title: "encryption fails",
        classes: [X, X, D, D, D, D, D, D, D],
        shown: &[
            test(&[Postgres, Mysql], "distlock-sql", "operations", "an_authority_of_one_s_own_is_enough"),
            test(&[Redis], "distlock-redis", "operations", "a_stranger_s_authority_is_refused"),
            test(&[Redis], "distlock-redis", "operations", "a_held_lock_lives_through_a_broken_connection"),
            test(
                &[Failover],
                "distlock-redis",
                "operations",
                "sentinels_and_the_masters_they_name_are_encrypted",
            ),
            test(
                &[Failover],
                "distlock-redis",
                "operations",
                "a_cluster_s_nodes_are_encrypted_and_known_by_name",
            ),
            test(&[Etcd], "distlock-etcd", "operations", "a_stranger_s_authority_is_refused"),
            test(&[Zk], "distlock-zk", "operations", "an_encrypted_session_works_and_others_are_refused"),
        ],
        notes: &[ALONE, FILE, (Redlock, FEW)],
    },
    Fault {
        id: "F28",
        title: "a runtime ends under live guards",
        classes: [S; 9],
        shown: &[
            Case("shutdown::a_runtime_may_end_under_live_guards"),
            Case("shutdown::a_guard_outlives_its_runtime"),
        ],
        notes: &[],
    },
    Fault {
        id: "F29",
        title: "a guard is dropped outside of a runtime",
        classes: [S; 9],
        shown: &[
            Case("guard::b132_a_guard_dropped_outside_a_runtime_releases"),
            Case("guard::a_guard_dropped_in_a_panic_releases"),
        ],
        notes: &[],
    },
    Fault {
        id: "F30",
        title: "one client holds hundreds of locks",
        classes: [S; 9],
        shown: &[
            Case("watchdog::many_locks_are_kept"),
            Case("limits::many_locks_are_held_at_once"),
            test(&[Sqlite], "distlock-sql", "sqlite", "b108_ten_thousand_held_keys_are_in_nobodys_way"),
            test(&[Zk], "distlock-zk", "scenarios", "two_hundred_clients_hold_a_thousand_locks"),
        ],
        notes: &[],
    },
    Fault {
        id: "F31",
        title: "hundreds wait for one key, and some leave",
        classes: [S; 9],
        shown: &[Case("fairness::a_herd_with_quitters_is_served"), Case("limits::waiters_are_bounded")],
        notes: &[],
    },
    Fault {
        id: "F32",
        title: "hundreds of keys are each used once",
        classes: [S; 9],
        shown: &[
            Case("limits::idle_keys_leave_no_record"),
            test(&[Sqlite], "distlock-sql", "sqlite", "one_key_after_another_does_not_pile_up"),
            test(&[Postgres, Mysql], "distlock-sql", "servers", "b110_nothing_is_kept_of_keys_that_are_free"),
            test(
                &[Postgres, Mysql],
                "distlock-sql",
                "servers",
                "a_hundred_thousand_keys_leave_little_behind",
            ),
            test(&[Redis], "distlock-redis", "scenarios", "b115_idle_keys_leave_nothing_for_ever"),
            test(&[Zk], "distlock-zk", "scenarios", "b126_idle_locks_leave_no_nodes"),
        ],
        notes: &[],
    },
    Fault {
        id: "F33",
        title: "a record is damaged, or somebody else's",
        classes: [X, S, S, S, S, S, S, S, S],
        shown: &[
            test(
                &[Sqlite],
                "distlock-sql",
                "sqlite",
                "b118_a_damaged_record_is_corrupt_for_its_key_alone_and_can_be_replaced",
            ),
            test(
                &[Postgres, Mysql],
                "distlock-sql",
                "servers",
                "b118_a_damaged_row_is_corrupt_for_its_key_alone_and_can_be_replaced",
            ),
            test(&[Postgres, Mysql], "distlock-sql", "servers", "a_deadline_beyond_its_own_ttl_is_cut"),
            test(
                &[Redis],
                "distlock-redis",
                "scenarios",
                "b118_a_record_by_another_hand_is_told_and_can_be_cleared",
            ),
            test(
                &[Failover],
                "distlock-redis",
                "failover",
                "a_record_by_another_hand_is_told_and_can_be_cleared",
            ),
            test(
                &[Redlock],
                "distlock-redis",
                "redlock",
                "records_by_another_hand_count_as_a_majority_and_can_be_cleared",
            ),
            test(&[Etcd], "distlock-etcd", "operations", "a_damaged_record_is_named_and_replaced_by_force"),
            test(&[Zk], "distlock-zk", "scenarios", "b131_strange_numbers_keep_their_order"),
            test(&[Zk], "distlock-zk", "scenarios", "b128_nested_names_are_locks_of_their_own"),
        ],
        notes: &[
            (Memory, "nobody else gets at its records"),
            (Failover, "on a Cluster; Sentinel's records are those of a single server"),
            (Zk, "another program's nodes in a lock's own, and below them"),
        ],
    },
    Fault {
        id: "F34",
        title: "the server's disk is full, or it refuses writes",
        classes: [X, D, D, D, D, D, D, D, D],
        shown: &[
            Cell(&[Sqlite, Postgres, Mysql, Redis, Etcd]),
            test(&[Postgres], "distlock-sql", "servers", "b106_a_database_that_takes_no_writes_is_not_busy"),
            test(&[Mysql], "distlock-sql", "operations", "b106_a_server_that_takes_no_writes_is_not_busy"),
            test(&[Redis], "distlock-redis", "redis", "a_full_server_refuses_grants_but_takes_locks_back"),
            test(
                &[Failover],
                "distlock-redis",
                "failover",
                "a_full_node_refuses_grants_but_takes_locks_back",
            ),
            test(
                &[Redlock],
                "distlock-redis",
                "redlock",
                "full_servers_grant_nothing_as_a_majority_but_take_locks_back",
            ),
            test(
                &[Etcd],
                "distlock-etcd",
                "operations",
                "a_full_store_says_so_and_still_renews_and_releases",
            ),
        ],
        notes: &[
            (Memory, "there is no server"),
            (Failover, "a node of a Cluster whose memory is full"),
            (Redlock, "servers whose memory is full"),
            (Zk, "not run: nothing fills a server's disk yet"),
        ],
    },
    Fault {
        id: "F41",
        title: "a server evicts keys when it is full",
        classes: [X, X, X, X, S, S, S, X, X],
        shown: &[
            test(
                &[Redis],
                "distlock-redis",
                "operations",
                "b116_a_server_that_evicts_is_refused_unless_that_is_accepted",
            ),
            test(&[Failover], "distlock-redis", "failover", "a_promoted_server_that_evicts_is_refused"),
            test(&[Failover], "distlock-redis", "failover", "a_promoted_node_that_evicts_is_refused"),
            Cell(&[Redlock]),
        ],
        notes: &[
            (Memory, NO_EVICTION),
            (Sqlite, NO_EVICTION),
            (Postgres, NO_EVICTION),
            (Mysql, NO_EVICTION),
            (Redis, "such a server is refused"),
            (Failover, "such a server is refused"),
            (Redlock, "such a server is refused"),
            (Etcd, NO_EVICTION),
            (Zk, NO_EVICTION),
        ],
    },
    Fault {
        id: "F42",
        title: "a pooler or proxy stands in the way",
        classes: [X, X, D, D, D, X, D, D, D],
        shown: &[
            Case("wire::an_answer_that_comes_too_late_is_nobody_else_s"),
            Case("network::resets_do_not_cost_the_lock"),
            test(&[Postgres], "distlock-sql", "advisory", "a_pooler_that_changes_sessions_is_refused"),
            test(&[Postgres], "distlock-sql", "advisory", "who_leaves_early_harms_nobody"),
            test(&[Postgres], "distlock-sql", "advisory", "a_pooler_that_keeps_sessions_is_fine"),
        ],
        notes: &[
            ALONE,
            FILE,
            (Failover, "clients go to the addresses that the servers announce"),
            (Redlock, FEW),
        ],
    },
];

//! Faults of clients and of what they send: F01 to F08, F39, F40 and F43.

use super::Class::{Absent as X, Delayed as D, Fenced as F, Safe as S};
use super::Evidence::{Case, Cell, Test};
use super::Store::{self, Etcd, Failover, Memory, Mysql, Postgres, Redis, Redlock, Sqlite, Zk};
use super::{ALONE, BETWEEN, Fault};

const SHARED: &[Store] = &[Sqlite, Postgres, Mysql, Redis, Failover, Redlock, Etcd, Zk];
const ALL: &[Store] = &[Memory, Sqlite, Postgres, Mysql, Redis, Failover, Redlock, Etcd, Zk];
const SENT_LATE: &str = "the renewal is sent late, not held up on its way";

pub(super) const ROWS: &[Fault] = &[
    Fault {
        id: "F01",
        title: "a holder is stopped for longer than its ttl",
        classes: [X, F, F, F, F, F, F, F, F],
        shown: &[
            Cell(SHARED),
            Case("crash::a_stopped_holder_knows_that_it_lost"),
            Case("crash::a_stopped_holder_is_fenced_off"),
        ],
        notes: &[ALONE],
    },
    Fault {
        id: "F02",
        title: "a holder is killed",
        classes: [X, D, D, D, D, D, D, D, D],
        shown: &[
            Case("crash::a_killed_holder_is_succeeded"),
            Case("crash::a_killed_holder_is_not_succeeded_early"),
            Case("crash::holders_killed_at_random_are_succeeded"),
        ],
        notes: &[ALONE],
    },
    Fault {
        id: "F03",
        title: "waiters are killed, the first of the line among them",
        classes: [X, D, D, D, D, D, D, D, D],
        shown: &[Cell(SHARED), Case("crash::a_killed_waiter_blocks_nobody")],
        notes: &[ALONE],
    },
    Fault {
        id: "F04",
        title: "the future of an acquire is dropped midway",
        classes: [S; 9],
        shown: &[
            Case("cancellation::a_lock_dropped_at_any_point_leaves_nothing"),
            Case("cancellation::an_attempt_that_lands_late_is_swept_again"),
            Case("wire::a_late_attempt_is_withdrawn"),
        ],
        notes: &[],
    },
    Fault {
        id: "F05",
        title: "the answer to an acquire is lost",
        classes: [S; 9],
        shown: &[
            Case("ambiguity::a_grant_whose_answer_was_lost_can_be_asked_for_again"),
            Case("wire::a_grant_whose_answer_was_lost_is_the_same_grant"),
        ],
        notes: &[(Memory, BETWEEN), (Sqlite, BETWEEN), (Failover, BETWEEN), (Redlock, BETWEEN)],
    },
    Fault {
        id: "F06",
        title: "the answer to a release is lost",
        classes: [S; 9],
        shown: &[
            Case("ambiguity::a_release_whose_answer_was_lost_can_be_asked_for_again"),
            Case("cancellation::b023_a_release_dropped_at_any_point_still_happens"),
            Case("wire::clients_put_lost_answers_right"),
        ],
        notes: &[(Memory, BETWEEN), (Sqlite, BETWEEN), (Failover, BETWEEN), (Redlock, BETWEEN)],
    },
    Fault {
        id: "F07",
        title: "a renewal races with the end of the lease",
        classes: [S; 9],
        shown: &[
            Case("renewal::a_late_renewal_leaves_the_successor_alone"),
            Case("renewal::it_never_brings_back_a_released_lock"),
            Case("wire::a_late_renewal_brings_nothing_back"),
        ],
        notes: &[(Memory, SENT_LATE), (Sqlite, SENT_LATE), (Failover, SENT_LATE), (Redlock, SENT_LATE)],
    },
    Fault {
        id: "F08",
        title: "a client's wall clock jumps by an hour",
        classes: [S; 9],
        shown: &[
            Cell(ALL),
            Test {
                stores: &[Redis, Failover],
                package: "distlock-redis",
                program: "queue",
                name: "what_a_waiter_sends_says_nothing_of_its_clock",
            },
        ],
        notes: &[],
    },
    Fault {
        id: "F39",
        title: "a holder's task panics or is aborted",
        classes: [S; 9],
        shown: &[
            Case("guard::b024_a_guard_in_an_aborted_task_releases"),
            Case("guard::a_guard_dropped_in_a_panic_releases"),
            Case("watchdog::it_ends_with_a_panicking_holder"),
        ],
        notes: &[],
    },
    Fault {
        id: "F40",
        title: "a lock is released twice, or by somebody else",
        classes: [S; 9],
        shown: &[
            Case("unlock::twice_is_told_from_once"),
            Case("unlock::it_leaves_other_owners_alone"),
            Case("exclusion::two_claims_of_one_connection_exclude_each_other"),
        ],
        notes: &[],
    },
    Fault {
        id: "F43",
        title: "requests arrive twice or in another order",
        classes: [S; 9],
        shown: &[
            Case("ambiguity::late_doubles_leave_the_successor_alone"),
            Case("wire::a_late_release_leaves_the_successor_alone"),
            Case("wire::doubled_requests_leave_the_successor_alone"),
        ],
        notes: &[(Memory, BETWEEN), (Sqlite, BETWEEN), (Failover, BETWEEN), (Redlock, BETWEEN)],
    },
];

//! What the server and its client do, as far as the backend relies on it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves several programs"
)]

mod support;

use distlock_etcd::etcd_client::{
    Client, Compare, CompareOp, EventType, GetOptions, LeaseGrantOptions, PutOptions, SortOrder, SortTarget,
    Txn, TxnOp, TxnOpResponse, WatchOptions,
};

use support::{FAST, Server, tests};

tests! {
    a_lease_below_the_floor_is_raised_to_it,
    a_lease_s_number_can_be_chosen_once,
    a_revoked_lease_takes_its_records_along,
    a_write_on_a_lease_that_is_gone_does_nothing_at_all,
    one_stream_prolongs_many_leases_and_answers_in_order,
    a_comparison_over_a_range_tells_whether_it_is_empty,
    a_read_before_a_write_of_one_transaction_does_not_see_it,
    the_revision_of_a_transaction_is_that_of_what_it_creates,
    an_absent_value_compares_with_nothing,
    a_hundred_conditions_of_their_own_fit_into_a_transaction,
    a_watch_begins_after_the_revision_that_it_names_first,
    a_watch_of_what_was_compacted_is_canceled_with_a_revision,
    a_server_keeps_records_and_leases_over_a_restart,
}

fn main() -> std::process::ExitCode {
    support::main(tests())
}

fn on(lease: i64) -> Option<PutOptions> {
    Some(PutOptions::new().with_lease(lease))
}

async fn grant(raw: &mut Client, ttl: i64) -> i64 {
    raw.lease_grant(ttl, None).await.unwrap().id()
}

async fn a_lease_below_the_floor_is_raised_to_it() {
    let (slow, fast) = (Server::start(&[]).await, Server::start(FAST).await);
    for (server, floor) in [(slow, 2), (fast, 1)] {
        let mut raw = server.raw().await;
        for (asked, given) in [(1, floor), (3, 3)] {
            assert_eq!(raw.lease_grant(asked, None).await.unwrap().ttl(), given);
        }
    }
}

async fn a_lease_s_number_can_be_chosen_once() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let options = || Some(LeaseGrantOptions::new().with_id(42));
    assert_eq!(raw.lease_grant(5, options()).await.unwrap().id(), 42);
    let error = raw.lease_grant(5, options()).await.unwrap_err();
    assert!(error.to_string().contains("lease already exists"), "{error}");
    raw.lease_revoke(42).await.unwrap();
    let error = raw.lease_revoke(42).await.unwrap_err();
    assert!(error.to_string().contains("requested lease not found"), "{error}");
}

async fn a_revoked_lease_takes_its_records_along() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let lease = grant(&mut raw, 5).await;
    let put = raw.put("a", "1", on(lease)).await.unwrap().header().unwrap().revision();
    let revoked = raw.lease_revoke(lease).await.unwrap().header().unwrap().revision();
    assert_eq!(revoked, put + 1, "one step");
    assert!(raw.get("a", None).await.unwrap().kvs().is_empty());
}

async fn a_write_on_a_lease_that_is_gone_does_nothing_at_all() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let txn = Txn::new().and_then([TxnOp::put("a", "1", None), TxnOp::put("b", "1", on(7))]);
    let error = raw.txn(txn).await.unwrap_err();
    assert!(error.to_string().contains("requested lease not found"), "{error}");
    assert!(raw.get("a", None).await.unwrap().kvs().is_empty());
}

async fn one_stream_prolongs_many_leases_and_answers_in_order() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let first = grant(&mut raw, 5).await;
    let (mut requests, mut answers) = raw.lease_keep_alive(first).await.unwrap();
    let mut ids = vec![first];
    for _ in 0..20 {
        ids.push(grant(&mut raw, 7).await);
    }
    let gone = ids[3];
    raw.lease_revoke(gone).await.unwrap();
    for id in &ids {
        requests.id = *id;
        requests.keep_alive().await.unwrap();
    }
    for id in ids {
        let answer = answers.message().await.unwrap().unwrap();
        let ttl = if id == first {
            5
        } else if id == gone {
            0
        } else {
            7
        };
        assert_eq!((answer.id(), answer.ttl()), (id, ttl), "one that is gone ends neither stream nor order");
    }
}

async fn a_comparison_over_a_range_tells_whether_it_is_empty() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let is_empty = || Compare::create_revision("q/", CompareOp::Equal, 0).with_range("q0");
    assert!(raw.txn(Txn::new().when([is_empty()])).await.unwrap().succeeded());
    for name in ["q", "q0", "p/x"] {
        raw.put(name, "1", None).await.unwrap();
        assert!(raw.txn(Txn::new().when([is_empty()])).await.unwrap().succeeded(), "{name} is outside");
    }
    raw.put("q/x", "1", None).await.unwrap();
    assert!(!raw.txn(Txn::new().when([is_empty()])).await.unwrap().succeeded());
}

async fn a_read_before_a_write_of_one_transaction_does_not_see_it() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    raw.put("q/1", "1", None).await.unwrap();
    let read = |order| {
        let options = GetOptions::new().with_prefix().with_sort(SortTarget::Create, order).with_limit(1);
        TxnOp::get("q/", Some(options))
    };
    let parts = [
        read(SortOrder::Descend),
        TxnOp::put("q/0", "1", None),
        read(SortOrder::Descend),
        read(SortOrder::Ascend),
    ];
    let answer = raw.txn(Txn::new().and_then(parts)).await.unwrap();
    let names: Vec<_> = answer
        .op_responses()
        .into_iter()
        .filter_map(|part| match part {
            TxnOpResponse::Get(found) => Some(found.kvs()[0].key_str().unwrap().to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["q/1", "q/0", "q/1"]);
}

async fn the_revision_of_a_transaction_is_that_of_what_it_creates() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    for name in ["a", "b"] {
        let txn = Txn::new().and_then([TxnOp::put(name, "1", None)]);
        let revision = raw.txn(txn).await.unwrap().header().unwrap().revision();
        assert_eq!(raw.get(name, None).await.unwrap().kvs()[0].create_revision(), revision);
    }
}

async fn an_absent_value_compares_with_nothing() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    for op in [CompareOp::Less, CompareOp::Equal, CompareOp::Greater] {
        let txn = Txn::new().when([Compare::value("absent", op, "1")]);
        assert!(!raw.txn(txn).await.unwrap().succeeded(), "{op:?}");
    }
}

async fn a_hundred_conditions_of_their_own_fit_into_a_transaction() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let part = |n: usize| {
        let is_absent = Compare::version(format!("k{n}"), CompareOp::Equal, 0);
        TxnOp::txn(Txn::new().when([is_absent]).and_then([TxnOp::put(format!("k{n}"), "1", None)]))
    };
    let many = |count| Txn::new().and_then((0..count).map(part).collect::<Vec<_>>());
    assert_eq!(raw.txn(many(100)).await.unwrap().op_responses().len(), 100);
    let error = raw.txn(many(129)).await.unwrap_err();
    assert!(error.to_string().contains("too many operations"), "{error}");
}

async fn a_watch_begins_after_the_revision_that_it_names_first() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    raw.put("a/1", "1", None).await.unwrap();
    let mut watch = raw.watch("a/", Some(WatchOptions::new().with_prefix())).await.unwrap();
    let created = watch.message().await.unwrap().unwrap();
    assert!(created.created());
    let begins = created.header().unwrap().revision();
    raw.delete("a/1", None).await.unwrap();
    let event = watch.message().await.unwrap().unwrap();
    assert_eq!(event.events()[0].event_type(), EventType::Delete);
    assert_eq!(event.events()[0].kv().unwrap().mod_revision(), begins + 1);
    watch.request_progress().await.unwrap();
    let progress = watch.message().await.unwrap().unwrap();
    assert!(progress.events().is_empty() && !progress.canceled(), "a sign of life");
}

async fn a_watch_of_what_was_compacted_is_canceled_with_a_revision() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let mut last = 0;
    for n in 0..5 {
        last = raw.put("a", n.to_string(), None).await.unwrap().header().unwrap().revision();
    }
    raw.compact(last, None).await.unwrap();
    let mut watch = raw.watch("a", Some(WatchOptions::new().with_start_revision(2))).await.unwrap();
    loop {
        let message = watch.message().await.unwrap().expect("no error, and no end");
        if message.canceled() {
            assert_eq!(message.compact_revision(), last);
            return;
        }
    }
}

async fn a_server_keeps_records_and_leases_over_a_restart() {
    let mut server = Server::start(FAST).await;
    let mut raw = server.raw().await;
    let lease = grant(&mut raw, 60).await;
    let put = raw.put("a", "1", on(lease)).await.unwrap().header().unwrap().revision();
    server.kill();
    server.start_again().await;
    let mut raw = server.raw().await;
    let record = raw.get("a", None).await.unwrap();
    assert_eq!((record.kvs()[0].lease(), record.kvs()[0].create_revision()), (lease, put));
    assert!(raw.lease_time_to_live(lease, None).await.unwrap().ttl() > 50);
}

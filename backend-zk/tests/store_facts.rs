//! What the server and its client do, as far as the backend relies on it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves several programs"
)]

mod support;

use std::time::Duration;

use distlock_zk::zookeeper_client::{
    Acls, Client, CreateMode, CreateOptions, Error, EventType, MultiReadResult, MultiWriteError,
    MultiWriteResult,
};
use support::{ask, eventually, folder, raw, shared, tests};

tests! {
    a_place_s_transaction_is_known_when_it_is_made_and_rises_over_all_paths,
    the_number_in_a_name_begins_anew_with_its_parent,
    a_list_after_a_create_shows_all_that_were_made_before,
    a_check_alone_is_a_transaction_that_changes_nothing,
    a_delete_of_another_version_is_refused,
    several_writes_happen_together_or_not_at_all,
    a_node_takes_another_one_s_place_only_if_none_was_made_since,
    a_read_of_several_tells_each_one_s_absence,
    the_end_of_a_node_without_children_is_all_that_a_watch_of_its_children_sees,
    a_container_goes_with_its_last_child_and_not_before_it_had_one,
    a_place_ends_with_its_session_and_not_with_its_connection,
    a_dropped_call_is_carried_out_all_the_same,
    session_timeouts_are_clamped_by_the_server,
    a_sync_needs_no_node,
}

fn main() -> std::process::ExitCode {
    support::main(tests(), true)
}

const fn mode(mode: CreateMode) -> CreateOptions<'static> {
    mode.with_acls(Acls::anyone_all())
}

/// A client, and a folder for it.
async fn ready() -> (Client, String) {
    let (raw, folder) = (raw().await, folder());
    raw.create(&folder, b"", &mode(CreateMode::Persistent)).await.unwrap();
    (raw, folder)
}

async fn place(raw: &Client, folder: &str) -> (String, i64) {
    let prefix = format!("{folder}/_c_x-lock-");
    let (stat, number) = raw.create(&prefix, b"", &mode(CreateMode::EphemeralSequential)).await.unwrap();
    (format!("{prefix}{number}"), stat.czxid)
}

async fn a_place_s_transaction_is_known_when_it_is_made_and_rises_over_all_paths() {
    let ((one, folder), (two, other)) = (ready().await, ready().await);
    let mut last = 0;
    for _ in 0..20 {
        for (raw, folder) in [(&one, &folder), (&two, &other)] {
            let (path, czxid) = place(raw, folder).await;
            assert!(czxid > last, "{czxid} after {last}");
            assert_eq!(raw.check_stat(&path).await.unwrap().unwrap().czxid, czxid);
            last = czxid;
        }
    }
}

/// Why the number is no token.
async fn the_number_in_a_name_begins_anew_with_its_parent() {
    let (raw, folder) = ready().await;
    let (first, czxid) = place(&raw, &folder).await;
    let (second, _) = place(&raw, &folder).await;
    assert!(second > first);
    raw.delete(&first, None).await.unwrap();
    raw.delete(&second, None).await.unwrap();
    raw.delete(&folder, None).await.unwrap();
    raw.create(&folder, b"", &mode(CreateMode::Persistent)).await.unwrap();
    let (again, later) = place(&raw, &folder).await;
    assert_eq!(again, first);
    assert!(later > czxid);
}

async fn a_list_after_a_create_shows_all_that_were_made_before() {
    let (one, folder) = ready().await;
    let two = raw().await;
    for _ in 0..50 {
        let (before, _) = place(&one, &folder).await;
        let (own, _) = place(&two, &folder).await;
        let names = two.list_children(&folder).await.unwrap();
        for path in [before, own] {
            assert!(names.iter().any(|name| path.ends_with(name)), "{path} is not in {names:?}");
            two.delete(&path, None).await.unwrap();
        }
    }
}

/// What the backend sends as a sign of life.
async fn a_check_alone_is_a_transaction_that_changes_nothing() {
    let (raw, folder) = ready().await;
    let (_, before) = place(&raw, &folder).await;
    let stat = raw.check_stat(&folder).await.unwrap();
    for _ in 0..3 {
        let mut writer = raw.new_multi_writer();
        writer.add_check_version(&folder, -1).unwrap();
        writer.commit().await.unwrap();
    }
    assert_eq!(raw.check_stat(&folder).await.unwrap(), stat, "the node is as it was");
    let (_, after) = place(&raw, &folder).await;
    assert!(after >= before + 4, "{after} after {before}: each of three took a number");
}

async fn a_delete_of_another_version_is_refused() {
    let (raw, folder) = ready().await;
    let (path, _) = place(&raw, &folder).await;
    assert_eq!(raw.set_data(&path, b"x", Some(0)).await.unwrap().version, 1);
    assert_eq!(raw.delete(&path, Some(0)).await.unwrap_err(), Error::BadVersion);
    raw.delete(&path, Some(1)).await.unwrap();
    assert_eq!(raw.set_data(&path, b"x", Some(1)).await.unwrap_err(), Error::NoNode);
}

async fn several_writes_happen_together_or_not_at_all() {
    let (raw, folder) = ready().await;
    let (one, two) = (place(&raw, &folder).await.0, place(&raw, &folder).await.0);
    let write = async |versions: [i32; 2]| {
        let mut writer = raw.new_multi_writer();
        writer.add_set_data(&one, b"x", Some(versions[0])).unwrap();
        writer.add_set_data(&two, b"x", Some(versions[1])).unwrap();
        writer.commit().await
    };
    let written = write([0, 0]).await.unwrap();
    assert!(matches!(
        written.as_slice(),
        [MultiWriteResult::SetData { .. }, MultiWriteResult::SetData { .. }]
    ));
    let refused = write([1, 0]).await.unwrap_err();
    assert_eq!(refused, MultiWriteError::OperationFailed { index: 1, source: Error::BadVersion });
    assert_eq!(raw.check_stat(&one).await.unwrap().unwrap().version, 1, "the first was not written either");
}

/// How locks are passed on.
async fn a_node_takes_another_one_s_place_only_if_none_was_made_since() {
    let (raw, folder) = ready().await;
    let prefix = format!("{folder}/_c_y-lock-");
    let pass = async |before: &str| {
        let number: i32 = before.rsplit_once("lock-").unwrap().1.parse().unwrap();
        let path = format!("{prefix}{:010}", number + 1);
        let mut writer = raw.new_multi_writer();
        writer.add_create(&prefix, b"", &mode(CreateMode::EphemeralSequential)).unwrap();
        writer.add_set_data(&path, b"x", Some(0)).unwrap();
        writer.add_delete(before, None).unwrap();
        (path, writer.commit().await)
    };
    let (first, czxid) = place(&raw, &folder).await;
    let (path, passed) = pass(&first).await;
    let passed = passed.unwrap();
    let Some(MultiWriteResult::SetData { stat }) = passed.get(1) else { panic!("{passed:?}") };
    assert!(stat.czxid > czxid, "the answer tells the transaction: {stat:?}");
    assert_eq!(raw.check_stat(&path).await.unwrap().unwrap(), *stat);
    assert_eq!(raw.check_stat(&first).await.unwrap(), None);
    // Also if whatever was made has gone again.
    let (other, _) = place(&raw, &folder).await;
    raw.delete(&other, None).await.unwrap();
    let refused = MultiWriteError::OperationFailed { index: 1, source: Error::NoNode };
    assert_eq!(pass(&path).await.1.unwrap_err(), refused);
    let (gone, _) = place(&raw, &folder).await;
    raw.delete(&gone, None).await.unwrap();
    let refused = MultiWriteError::OperationFailed { index: 2, source: Error::NoNode };
    assert_eq!(pass(&gone).await.1.unwrap_err(), refused);
    assert_eq!(raw.list_children(&folder).await.unwrap().len(), 1, "nothing was made");
}

async fn a_read_of_several_tells_each_one_s_absence() {
    let (raw, folder) = ready().await;
    let mut reader = raw.new_multi_reader();
    reader.add_get_children(&folder).unwrap();
    reader.add_get_data(&format!("{folder}/absent")).unwrap();
    let results = reader.commit().await.unwrap();
    assert!(matches!(
        results.as_slice(),
        [MultiReadResult::Children { .. }, MultiReadResult::Error { err: Error::NoNode }]
    ));
}

/// So a waiter does not wake when the one in front of it renews.
async fn the_end_of_a_node_without_children_is_all_that_a_watch_of_its_children_sees() {
    let (raw, folder) = ready().await;
    let (path, _) = place(&raw, &folder).await;
    let (_, watcher) = raw.list_and_watch_children(&path).await.unwrap();
    let (_, _, data) = raw.get_and_watch_data(&path).await.unwrap();
    raw.set_data(&path, b"x", None).await.unwrap();
    assert_eq!(data.changed().await.event_type, EventType::NodeDataChanged);
    raw.delete(&path, None).await.unwrap();
    assert_eq!(watcher.changed().await.event_type, EventType::NodeDeleted);
}

async fn a_container_goes_with_its_last_child_and_not_before_it_had_one() {
    let (raw, folder) = ready().await;
    let (used, fresh) = (format!("{folder}/used"), format!("{folder}/fresh"));
    for path in [&used, &fresh] {
        raw.create(path, b"", &mode(CreateMode::Container)).await.unwrap();
    }
    let (path, _) = place(&raw, &used).await;
    raw.delete(&path, None).await.unwrap();
    eventually("the used one is gone", async || raw.check_stat(&used).await.unwrap().is_none()).await;
    assert!(raw.check_stat(&fresh).await.unwrap().is_some());
}

async fn a_place_ends_with_its_session_and_not_with_its_connection() {
    let (other, folder) = ready().await;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (path, timeout) = {
        let folder = folder.clone();
        let used = runtime.spawn(async move {
            let raw = Client::connector()
                .with_session_timeout(Duration::from_secs(2))
                .connect(shared())
                .await
                .unwrap();
            let path = place(&raw, &folder).await.0;
            let timeout = raw.session_timeout();
            std::mem::forget(raw);
            (path, timeout)
        });
        used.await.unwrap()
    };
    // Its task is gone, and nobody has closed the session.
    let gone = std::time::Instant::now();
    runtime.shutdown_background();
    assert!(other.check_stat(&path).await.unwrap().is_some());
    eventually("the session ends", async || other.check_stat(&path).await.unwrap().is_none()).await;
    assert!(gone.elapsed() > timeout / 2, "{:?} of {timeout:?}", gone.elapsed());
    let polite = raw().await;
    let (path, _) = place(&polite, &folder).await;
    drop(polite);
    eventually("a session that is closed takes it at once", async || {
        other.check_stat(&path).await.unwrap().is_none()
    })
    .await;
}

/// Why a withdrawn attempt must be swept.
async fn a_dropped_call_is_carried_out_all_the_same() {
    let (raw, folder) = ready().await;
    let prefix = format!("{folder}/x-");
    for _ in 0..20 {
        drop(raw.create(&prefix, b"", &mode(CreateMode::EphemeralSequential)));
    }
    eventually("all were carried out", async || raw.list_children(&folder).await.unwrap().len() == 20).await;
}

async fn session_timeouts_are_clamped_by_the_server() {
    let ask_for = async |millis| {
        let connector = Client::connector().with_session_timeout(Duration::from_millis(millis));
        connector.connect(shared()).await.unwrap().session_timeout().as_millis()
    };
    let report = ask(shared(), "conf").await;
    let setting = |name: &str| -> u128 {
        report
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
            .trim_start_matches('=')
            .parse()
            .unwrap()
    };
    assert_eq!(ask_for(100).await, setting("minSessionTimeout"));
    assert_eq!(ask_for(3000).await, 3000);
    assert_eq!(ask_for(10_000_000).await, setting("maxSessionTimeout"));
}

async fn a_sync_needs_no_node() {
    raw().await.sync("/nowhere/at/all").await.unwrap();
}

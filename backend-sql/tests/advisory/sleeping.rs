//! Sessions on MySQL and MariaDB that sleep at the server while nobody uses them.

use std::time::{Duration, Instant};

use distlock_conformance::Way;
use distlock_core::{Claim, Lease, LockRequest, Release, Renewal, TryLock};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row as _};

use crate::harness::{eventually, fresh, shared, tests};
use crate::key;
use crate::proxied::proxied;
use crate::sessions::{Backend, connect_to, of_its_own, sessions, take};

tests! {
    ["mysql"]
    renewals_and_releases_wake_a_session,
    the_other_connection_may_end_alone,
    without_another_connection_sessions_are_asked,
    a_cancelled_sleep_costs_no_lock,
    a_client_s_end_wakes_its_sessions,
    many_sleep_by_one_connection_and_all_end_with_the_backend,
    a_session_that_the_server_forgot_without_a_word_is_found_missing,
}

const TTL: Duration = Duration::from_secs(60);

pub(crate) async fn direct() -> MySqlConnection {
    MySqlConnection::connect(&shared("mysql").await).await.unwrap()
}

async fn run(raw: &mut MySqlConnection, statement: String) {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(raw).await.unwrap();
}

/// The sessions of a user for which a condition holds.
async fn those(raw: &mut MySqlConnection, user: &str, condition: &str) -> Vec<i64> {
    let find = format!(
        "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE user = '{user}' AND {condition}"
    );
    let rows = sqlx::raw_sql(AssertSqlSafe(find)).fetch_all(raw).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Waits until so many sessions sleep. This reads alike on MySQL and MariaDB.
pub(crate) async fn sleepers(raw: &mut MySqlConnection, user: &str, many: usize) -> Vec<i64> {
    let mut asleep = Vec::new();
    eventually("they sleep", async || {
        asleep = those(raw, user, "state = 'User lock'").await;
        asleep.len() == many
    })
    .await;
    asleep
}

async fn is_held(backend: &Backend, lease: &Lease) {
    let renewal = backend.renew(lease, TTL).await.unwrap();
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
}

async fn renewals_and_releases_wake_a_session() {
    const ROUNDS: u32 = 40;
    let (backend, user) = of_its_own("mysql", "connections=4").await;
    let mut raw = direct().await;
    let mut asleep = Duration::ZERO;
    for _ in 0..ROUNDS {
        let lease = take(&backend, &fresh("k")).await;
        sleepers(&mut raw, &user, 1).await;
        let begun = Instant::now();
        for _ in 0..3 {
            is_held(&backend, &lease).await;
            // The same claim once more.
            let again = LockRequest::new(lease.claim.clone(), TTL);
            assert!(matches!(backend.try_lock(&again).await.unwrap(), TryLock::Acquired(_)));
        }
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
        asleep += begun.elapsed();
    }
    // If they had to wait for it to end by itself, half of a sleep each of seven times.
    assert!(asleep < ROUNDS * 7 * Duration::from_millis(125) / 2, "{asleep:?}");
    assert!(sessions("mysql", &user, false).await <= 4);
}

async fn the_other_connection_may_end_alone() {
    let (backend, user) = of_its_own("mysql", "connections=4").await;
    let mut raw = direct().await;
    let before = those(&mut raw, &user, "true").await;
    let leases = [take(&backend, &fresh("k")).await, take(&backend, &fresh("k")).await];
    for _ in 0..2 {
        let asleep = sleepers(&mut raw, &user, 2).await;
        let others = those(&mut raw, &user, "true").await;
        let [other] = others.iter().filter(|id| !before.contains(id)).collect::<Vec<_>>()[..] else {
            panic!("{others:?}, {before:?}")
        };
        assert!(!asleep.contains(other));
        run(&mut raw, format!("KILL {other}")).await;
        eventually("it has gone", async || those(&mut raw, &user, &format!("id = {other}")).await.is_empty())
            .await;
        for lease in &leases {
            is_held(&backend, lease).await;
        }
        let asleep_again = sleepers(&mut raw, &user, 2).await;
        assert_eq!(asleep_again, asleep, "the sessions are the same");
    }
    for lease in &leases {
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    }
}

/// Neither is there a loop without a pause, nor does a loss remain unknown.
async fn without_another_connection_sessions_are_asked() {
    let (backend, user) = of_its_own("mysql", "connections=2").await;
    let mut raw = direct().await;
    run(&mut raw, format!("ALTER USER {user} ACCOUNT LOCK")).await;
    let lease = take(&backend, &fresh("k")).await;
    let (begun, sent) = (Instant::now(), backend.commands_sent().unwrap());
    eventually("it is asked", async || backend.commands_sent().unwrap() > sent + 8).await;
    assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(those(&mut raw, &user, "state = 'User lock'").await, [0; 0]);
    is_held(&backend, &lease).await;
    assert!(sessions("mysql", &user, true).await > 0);
    tokio::time::timeout(Duration::from_secs(10), backend.watch_loss(&lease)).await.unwrap().unwrap();
    // As soon as another connection can be had, they sleep.
    run(&mut raw, format!("ALTER USER {user} ACCOUNT UNLOCK")).await;
    take(&backend, &fresh("k")).await;
    sleepers(&mut raw, &user, 1).await;
}

async fn a_cancelled_sleep_costs_no_lock() {
    let (backend, user) = of_its_own("mysql", "connections=2").await;
    let mut raw = direct().await;
    let lease = take(&backend, &fresh("k")).await;
    for _ in 0..3 {
        let asleep = sleepers(&mut raw, &user, 1).await;
        // It may have woken by itself: then this cancels nothing.
        run(&mut raw, format!("KILL QUERY {}", asleep[0])).await;
        is_held(&backend, &lease).await;
        assert_eq!(sleepers(&mut raw, &user, 1).await, asleep, "the session is the same");
    }
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
}

/// B095.
async fn many_sleep_by_one_connection_and_all_end_with_the_backend() {
    const MANY: usize = 50;
    for closes in [true, false] {
        let (backend, user) = of_its_own("mysql", "connections=60").await;
        let mut raw = direct().await;
        let name = fresh("k");
        let mut leases = Vec::new();
        for at in 0..MANY {
            leases.push(take(&backend, &format!("{name}{at}")).await);
        }
        sleepers(&mut raw, &user, MANY).await;
        assert_eq!(sessions("mysql", &user, false).await, MANY + 1);
        for renewal in backend.renew_many(&leases, TTL).await {
            assert!(matches!(renewal, Ok(Renewal::Renewed { .. })), "{renewal:?}");
        }
        let half = leases.split_off(MANY / 2);
        let released = half.iter().map(|lease| backend.unlock(&lease.claim));
        for released in futures_util::future::join_all(released).await {
            assert_eq!(released.unwrap(), Release::Released);
        }
        sleepers(&mut raw, &user, MANY / 2).await;
        if closes {
            backend.close().await.unwrap();
        } else {
            drop(backend);
        }
        eventually("all sessions end", async || sessions("mysql", &user, false).await == 0).await;
    }
}

/// The network is silent while the session ends, and the holder's end of the connection stays open after that.
async fn a_session_that_the_server_forgot_without_a_word_is_found_missing() {
    let (proxy, behind) = proxied(&shared("mysql").await);
    let backend = connect_to("mysql", &behind).await.unwrap();
    let name = fresh("k");
    let claim = LockRequest::new(Claim::mint(key(&name)), TTL);
    let TryLock::Acquired(lease) = backend.try_lock(&claim).await.unwrap() else { panic!("it is free") };
    let sent = backend.commands_sent();
    eventually("it sleeps", async || backend.commands_sent() > sent).await;
    for way in [Way::ToServer, Way::ToClient] {
        proxy.silence(way);
    }
    let other = connect_to("mysql", &shared("mysql").await).await.unwrap();
    other.admin().unwrap().force_unlock(&key(&name)).await.unwrap();
    proxy.pass();
    tokio::time::timeout(TTL / 2, backend.watch_loss(&lease)).await.unwrap().unwrap();
}

/// What a crash comes down to, with a sleep that lasts longer than it is waited for.
async fn a_client_s_end_wakes_its_sessions() {
    let (mine, wakes) = (fresh("mine"), fresh("wakes"));
    let (mut watching, mut session, mut raw) = (direct().await, direct().await, direct().await);
    run(&mut watching, format!("DO GET_LOCK('{wakes}', 0)")).await;
    run(&mut session, format!("DO GET_LOCK('{mine}', 0)")).await;
    let slept = tokio::spawn(async move { run(&mut session, format!("DO GET_LOCK('{wakes}', 1000)")).await });
    let number = async |raw: &mut MySqlConnection, what: &str| -> i64 {
        let statement = format!("SELECT CAST({what} AS SIGNED)");
        sqlx::raw_sql(AssertSqlSafe(statement)).fetch_one(raw).await.unwrap().get(0)
    };
    let holder = format!("COALESCE(IS_USED_LOCK('{mine}'), 0)");
    let id = number(&mut raw, &holder).await;
    let sleeping = format!(
        "(SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND state = 'User lock')"
    );
    eventually("it sleeps", async || number(&mut raw, &sleeping).await == 1).await;
    assert_eq!(number(&mut raw, &holder).await, id);
    slept.abort();
    drop(watching);
    eventually("the lock is free", async || number(&mut raw, &holder).await == 0).await;
}

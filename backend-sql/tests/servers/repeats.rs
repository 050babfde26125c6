//! Attempts that had to wait for somebody else's statement on the row: what the server evaluated before that wait
//! must not decide.

use std::time::Duration;

use distlock_conformance::Proxy;
use distlock_core::{Effect, LockBackend, LockClient, LockOptions, LockRequest, Release, Result, TryLock};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::proxied::proxied;
use crate::support::{Kind, MS, Raw, S, Tables, eventually, request, take, tests};

tests! {
    a_repeat_that_waited_for_the_release_gets_a_new_token on BOTH,
    a_repeat_that_waited_for_the_grant_gets_its_token on BOTH,
    a_rival_that_waited_for_a_grant_is_busy_and_changes_nothing on BOTH,
    a_rival_that_waited_for_a_release_gets_the_next_token on BOTH,
    an_attempt_that_can_t_be_repeated_may_have_landed on BOTH,
    what_lands_late_from_a_broken_connection_is_withdrawn on POSTGRES,
}

/// Longer than MariaDB keeps the list of transactions.
const UNREAD: Duration = Duration::from_millis(150);
const RELEASE: &str = "UPDATE {t} SET owner = NULL, expires_at = NULL, ttl = NULL, metadata = ''";
/// What a row says, beside the times.
const ROW: &str = "SELECT CONCAT(token, ' ', expires_at, ' ', ttl, ' ', metadata) AS r FROM {t}";

/// Begins an attempt while `raw` has the row locked by a transaction, and waits until the attempt waits for that.
async fn attempt(tables: &Tables, request: &LockRequest) -> JoinHandle<Result<TryLock>> {
    let backend = tables.connect(tables.config().response_timeout(60 * S)).await;
    let request = request.clone();
    let attempt = tokio::spawn(async move { backend.try_lock(&request).await });
    // A transaction sees who waits as it was when it first looked.
    let mut other = tables.raw().await;
    let waiting = match tables.kind {
        Kind::Postgres => {
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INTO \"{t}\"%'"
        }
        Kind::MySql => {
            "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%INTO `{t}`%'"
        }
    };
    // MariaDB makes that list anew only if nobody has read it for a tenth of a second, so one reads at a time.
    static READING: Mutex<()> = Mutex::const_new(());
    eventually("the attempt waits for the row", async || {
        let _reading = READING.lock().await;
        tokio::time::sleep(UNREAD).await;
        other.number(waiting).await == 1
    })
    .await;
    attempt
}

async fn locked(tables: &Tables, statement: &str) -> Raw {
    let mut raw = tables.raw().await;
    raw.execute("BEGIN").await;
    raw.execute(statement).await;
    raw
}

async fn a_repeat_that_waited_for_the_release_gets_a_new_token(tables: Tables) {
    let backend = tables.backend().await;
    let request = request("k", 60 * S);
    let first = take(&backend, &request).await;
    let mut raw = locked(&tables, RELEASE).await;
    let repeat = attempt(&tables, &request).await;
    raw.execute("COMMIT").await;
    let TryLock::Acquired(second) = repeat.await.unwrap().unwrap() else { panic!("it is free") };
    assert!(second.token > first.token, "{} after {}", second.token, first.token);
    assert_eq!(backend.unlock(&request.claim).await.unwrap(), Release::Released);
}

async fn a_repeat_that_waited_for_the_grant_gets_its_token(tables: Tables) {
    let backend = tables.backend().await;
    let request = request("k", 60 * S);
    let first = take(&backend, &request).await;
    let mut raw = locked(&tables, "UPDATE {t} SET token = token + 1000000000").await;
    let repeat = attempt(&tables, &request).await;
    raw.execute("COMMIT").await;
    let TryLock::Acquired(second) = repeat.await.unwrap().unwrap() else { panic!("it is its own") };
    assert_eq!(second.token.get(), first.token.get() + 1_000_000_000);
}

async fn a_rival_that_waited_for_a_grant_is_busy_and_changes_nothing(tables: Tables) {
    let backend = tables.backend().await;
    let mine = request("k", 60 * S);
    let first = take(&backend, &mine).await;
    backend.unlock(&mine.claim).await.unwrap();
    let mut owner = String::new();
    for byte in mine.claim.owner.as_bytes() {
        owner.push_str(&format!("{byte:02x}"));
    }
    let (owner, now) = match tables.kind {
        Kind::Postgres => (
            format!("decode('{owner}', 'hex')"),
            "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
        ),
        Kind::MySql => {
            (format!("UNHEX('{owner}')"), "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
        }
    };
    let grant = format!(
        "UPDATE {{t}} SET token = token + 1, owner = {owner}, ttl = 60000000, expires_at = {now} + 60000000"
    );
    let mut raw = locked(&tables, &grant).await;
    let before = raw.texts(ROW, &["r"]).await;
    let rival = attempt(&tables, &request("k", 60 * S)).await;
    raw.execute("COMMIT").await;
    let TryLock::Busy(busy) = rival.await.unwrap().unwrap() else { panic!("it was granted meanwhile") };
    let holder = busy.holder.unwrap();
    assert_eq!((holder.owner, holder.token.get()), (mine.claim.owner, first.token.get() + 1));
    assert_eq!(raw.texts(ROW, &["r"]).await, before);
}

async fn a_rival_that_waited_for_a_release_gets_the_next_token(tables: Tables) {
    let backend = tables.backend().await;
    let first = take(&backend, &request("k", 60 * S)).await;
    let mut raw = locked(&tables, &format!("{RELEASE}, token = token + 1000000000")).await;
    let rival = attempt(&tables, &request("k", 60 * S)).await;
    raw.execute("COMMIT").await;
    let TryLock::Acquired(second) = rival.await.unwrap().unwrap() else { panic!("it is free") };
    // Above what it waited for, however far that is ahead of the clock.
    assert_eq!(second.token.get(), first.token.get() + 1_000_000_001);
}

/// The same server by way of a proxy.
pub(crate) fn behind_proxy(tables: &Tables) -> (Proxy, Tables) {
    let (proxy, url) = proxied(&tables.url);
    (proxy, Tables { url, ..tables.clone() })
}

/// It is under way on a connection that breaks, and there is no other one to be had.
async fn an_attempt_that_can_t_be_repeated_may_have_landed(tables: Tables) {
    let (proxy, behind) = behind_proxy(&tables);
    let request = request("k", 60 * S);
    take(&*tables.backend().await, &request).await;
    let mut raw = locked(&tables, RELEASE).await;
    let attempt = attempt(&behind, &request).await;
    proxy.refuse().await;
    proxy.reset().await;
    let error = attempt.await.unwrap().unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    raw.execute("COMMIT").await;
}

/// The server's end of a connection is frozen with an attempt on it, and the connection breaks. The backend asks again
/// on another one; when that lock is released, the first attempt is run after all, and takes it for nobody.
async fn what_lands_late_from_a_broken_connection_is_withdrawn(tables: Tables) {
    let user = tables.create_user().await;
    let (proxy, behind) = behind_proxy(&tables);
    let backend = behind.connect(behind.config().user(&user).password("x").connections(2)).await;
    let client = LockClient::new(backend);
    // The first on a connection asks the server to read the statement, and sends the values later.
    client.try_lock("k").await.unwrap().unwrap().unlock().await.unwrap();
    let mut raw = tables.raw().await;
    let sessions = format!(
        "SELECT CAST(pid AS text) AS pid FROM pg_stat_activity WHERE usename = '{user}' AND query NOT LIKE 'LISTEN%'"
    );
    let sessions: Vec<_> = raw.texts(&sessions, &["pid"]).await.into_iter().flatten().map(Session).collect();
    assert!(!sessions.is_empty());

    sessions.iter().for_each(|session| session.signal("STOP"));
    let sent = proxy.traffic().to_server;
    let options = LockOptions::default().ttl(60 * S).op_timeout(500 * MS);
    let attempt = tokio::spawn({
        let (client, options) = (client.clone(), options.clone());
        async move { client.try_lock_with("k", &options).await }
    });
    eventually("the attempt is sent", async || proxy.traffic().to_server > sent).await;
    proxy.reset().await;
    let guard = attempt.await.unwrap().unwrap().unwrap();
    let token = guard.token().get_i64();
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);

    sessions.iter().for_each(|session| session.signal("CONT"));
    eventually("the first attempt is run", async || raw.number("SELECT token FROM {t}").await > token).await;
    eventually("it is withdrawn", async || raw.number("SELECT count(owner) FROM {t}").await == 0).await;
    client.shutdown(5 * S).await;
    tables.drop_user(&user).await;
}

/// The process of the server that serves one connection. Goes on when dropped.
struct Session(String);

impl Session {
    fn signal(&self, signal: &str) {
        // It may have ended by itself.
        let _ = std::process::Command::new("kill").args(["-s", signal, &self.0]).status().unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.signal("CONT");
    }
}

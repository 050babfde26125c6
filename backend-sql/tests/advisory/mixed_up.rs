//! Lease rows behind a pooler that gives a server to the next client while answers to the last one are on their
//! way, as PgBouncer 1.18 does.

use std::time::Duration;

use distlock_core::{
    Claim, ErrorKind, LockAdmin as _, LockBackend as _, LockRequest, OwnerId, Release, Renewal, Result,
    StoreUrl, TryLock,
};
use distlock_sql::postgres::{self, LeaseRows, ServerConfig};
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, PgConnection, PgPool, Row as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{eventually, fresh, shared, tests};
use crate::key;

tests! {
    ["pgbouncer"]
    who_leaves_early_harms_nobody,
}

const TTL: Duration = Duration::from_secs(60);
/// What a client leaves behind: the pooler takes the end of its first statement for the end of all. It comes when
/// the lock of this number is given up.
const LEFT: [&str; 4] = [
    "SELECT CAST(1 AS bigint) FROM pg_advisory_xact_lock_shared({})",
    "BEGIN; SELECT pg_advisory_xact_lock_shared({})",
    // Errors that say that nothing was done: one for good, and one after which it is tried again.
    "SELECT pg_advisory_xact_lock_shared({}); SELECT 1 / 0",
    "SELECT pg_advisory_xact_lock_shared({}); DO 'BEGIN RAISE serialization_failure; END'",
];

/// All in one, since they share the pooler's only server.
async fn who_leaves_early_harms_nobody() {
    let pooler = Pooler::new().await;
    for left in LEFT {
        check(&pooler, left).await;
    }
}

/// Every operation has the outcome that it would have by itself, however it begins.
async fn check(pooler: &Pooler, left: &str) {
    let table = fresh("t");
    let connect = async || settled(async || connect(&pooler.url, &table).await).await;
    let (backend, other) = (connect().await, connect().await);
    for round in 0..3 {
        let name = key(&format!("k{round}"));
        let attempt = || LockRequest::new(Claim::mint(name.clone()), TTL);
        let (first, second) = (attempt(), attempt());
        let holder = async |backend: &LeaseRows| {
            let record = settled(async || backend.inspect(&name).await).await;
            record.and_then(|record| record.holders.first().map(|holder| holder.token))
        };
        let outcome = pooler.behind(left, settled(async || backend.try_lock(&first).await)).await;
        let TryLock::Acquired(lease) = outcome else { panic!("{name} is free: {outcome:?}") };
        assert_eq!(holder(&other).await, Some(lease.token));
        assert_eq!(pooler.behind(left, holder(&backend)).await, Some(lease.token));
        let renewal = pooler.behind(left, settled(async || backend.renew(&lease, TTL).await)).await;
        assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
        let outcome = pooler.behind(left, settled(async || other.try_lock(&second).await)).await;
        assert!(matches!(outcome, TryLock::Busy(_)), "{outcome:?}");
        match pooler.behind(left, backend.unlock(&lease.claim)).await {
            Ok(outcome) => assert_eq!(outcome, Release::Released),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        settled(async || backend.unlock(&lease.claim).await).await;
        assert_eq!(holder(&other).await, None);
    }
}

/// A pooler with a single server, which whoever comes next is given.
struct Pooler {
    url: String,
    /// Around the pooler, to its server.
    direct: PgPool,
}

impl Pooler {
    async fn new() -> Self {
        let url = shared("pgbouncer").await.replace("/transaction", "/narrow");
        let databases = show(&url, "DATABASES").await;
        let narrow = databases.iter().find(|row| row.get::<&str, _>("name") == "narrow").unwrap();
        let (host, port): (&str, i32) = (narrow.get("host"), narrow.get("port"));
        let direct = format!("postgres://postgres@{host}:{port}/postgres");
        Self { direct: PgPool::connect(&direct).await.unwrap(), url }
    }

    /// The operation, which is given what another client has left behind.
    async fn behind<T>(&self, left: &str, operation: impl Future<Output = T>) -> T {
        let number = u32::from_be_bytes(OwnerId::random().as_bytes()[..4].try_into().unwrap());
        let mut keeper = self.direct.begin().await.unwrap();
        run(&mut keeper, &format!("SELECT pg_advisory_xact_lock({number})")).await;
        leave(&self.url, &left.replace("{}", &number.to_string())).await;
        let let_it_come = async {
            eventually("the operation has the server", async || self.is_in_use().await).await;
            keeper.rollback().await.unwrap();
        };
        tokio::join!(operation, let_it_come).0
    }

    async fn is_in_use(&self) -> bool {
        let is = |row: &PgRow, name: &str, value: &str| row.get::<&str, _>(name) == value;
        let servers = show(&self.url, "SERVERS").await;
        servers.iter().any(|row| is(row, "database", "narrow") && is(row, "state", "active"))
    }
}

/// What the pooler's console says.
async fn show(url: &str, what: &str) -> Vec<PgRow> {
    let mut console = PgConnection::connect(&url.replace("/narrow", "/pgbouncer")).await.unwrap();
    run(&mut console, &format!("SHOW {what}")).await
}

async fn run(on: &mut PgConnection, sql: &str) -> Vec<PgRow> {
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).fetch_all(on).await.unwrap()
}

async fn connect(url: &str, table: &str) -> Result<LeaseRows> {
    let mut url: StoreUrl = format!("{url}?table={table}&pooled=on&connections=2").parse().unwrap();
    postgres::connect(ServerConfig::from_url(&mut url)?).await
}

/// What an operation says once it is not mixed up with another client's, which it says itself.
async fn settled<T>(mut operation: impl AsyncFnMut() -> Result<T>) -> T {
    for _ in 0..100 {
        match operation().await {
            Ok(outcome) => return outcome,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
    panic!("mixed up each time");
}

/// A client that sends two statements at once, and is gone after the first one's answer.
async fn leave(url: &str, left: &str) {
    let (_, address) = url.split_once('@').unwrap();
    let (address, database) = address.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    // Those of the backend: the pooler throws away what comes before it has set others.
    let settings = format!(
        "user\0postgres\0database\0{database}\0application_name\0distlock\0DateStyle\0ISO, MDY\0\
         client_encoding\0UTF8\0TimeZone\0UTC\0\0"
    );
    let version = 196_608_i32.to_be_bytes();
    let length = i32::try_from(8 + settings.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length, &version, settings.as_bytes()].concat()).await.unwrap();
    until_ready(&mut stream).await;
    stream.write_all(&[query("SELECT 1"), query(left)].concat()).await.unwrap();
    until_ready(&mut stream).await;
}

fn query(sql: &str) -> Vec<u8> {
    let length = i32::try_from(sql.len() + 5).unwrap().to_be_bytes();
    [b"Q", &length[..], sql.as_bytes(), &[0]].concat()
}

async fn until_ready(stream: &mut TcpStream) {
    loop {
        let kind = stream.read_u8().await.unwrap();
        let length = stream.read_i32().await.unwrap();
        let mut message = vec![0; usize::try_from(length - 4).unwrap()];
        stream.read_exact(&mut message).await.unwrap();
        if kind == b'Z' {
            return;
        }
    }
}

//! The short cuts of the scripts against the full scripts, step by step: one record is driven through
//! the short cuts, its twin without, and both must always look alike.

use std::collections::BTreeMap;

use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::support::{Server, eventually, run, tests};

tests! {
    short_cuts_do_what_the_full_scripts_do,
}

/// How many steps the twins go.
const STEPS: usize = 3000;
/// The twins' scripts run right after each other; this is for a server that was paused in between.
const TOLERANCE: i64 = 30_000_000;
/// So far above the clock (11 days in µs) no time of these tests is: what is stored there must be exact.
const BEYOND: i64 = 1_000_000_000_000;
const TWINS: [&str; 2] = ["fast", "full"];

macro_rules! script {
    ($($file:literal),*) => {
        concat!($(include_str!(concat!("../../src/scripts/", $file, ".lua"))),*)
    };
}

/// With the short cut, and without.
const ACQUIRE: [&str; 2] =
    [script!("acquire_idle", "record", "queue", "acquire"), script!("record", "queue", "acquire")];
const RELEASE: [&str; 2] =
    [script!("release_held", "record", "queue", "release"), script!("record", "queue", "release")];
/// Those that have none.
const HAND_OVER: [&str; 2] = [script!("record", "queue", "hand_over"); 2];
const RENEW: [&str; 2] = [script!("record", "queue", "renew"); 2];
const WATCH: [&str; 2] = [script!("record", "queue", "watch"); 2];
const FORCE_UNLOCK: [&str; 2] = [script!("record", "queue", "force_unlock"); 2];

/// Numbers that a record may hold and must not.
const ODD: [&str; 13] = [
    "",
    "x",
    "-1",
    "1e3",
    " 5",
    "5 ",
    "0",
    "1",
    "007",
    "9007199254740989",
    "9007199254740990",
    "9007199254740991",
    "99999999999999999999",
];

/// The twin records.
struct Twins {
    raw: MultiplexedConnection,
    random: fastrand::Rng,
    owners: Vec<String>,
    /// What was done so far, the latest last.
    steps: Vec<String>,
    /// How often a short cut was due: one to take a lock, and one to give it back.
    short: [usize; 2],
}

async fn short_cuts_do_what_the_full_scripts_do() {
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("TEST_SEED={seed}");
    let server = Server::start(&[]).await;
    let (heard, hears) = tokio::sync::mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(heard);
    let mut listener = server.client().get_multiplexed_async_connection_with_config(&config).await.unwrap();
    listener.subscribe(&["fast:0", "full:0"]).await.unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let owners = (0..4).map(|_| format!("{:032x}", random.u128(..))).collect();
    let mut twins = Twins { raw: server.raw().await, random, owners, steps: Vec::new(), short: [0; 2] };
    for _ in 0..STEPS {
        twins.step().await;
    }
    eprintln!("short cuts were due {:?} times", twins.short);
    assert!(twins.short.iter().all(|times| *times > STEPS / 40), "both were tried often: {:?}", twins.short);
    same_messages(hears).await;
}

/// Waiters of both have heard the same, in the same order.
async fn same_messages(mut hears: tokio::sync::mpsc::UnboundedReceiver<redis::PushInfo>) {
    let mut heard = [Vec::new(), Vec::new()];
    eventually("both have been announced as often", async || {
        while let Ok(push) = hears.try_recv() {
            if let [Value::BulkString(channel), message] = push.data.as_slice()
                && push.kind == redis::PushKind::Message
            {
                heard[usize::from(channel == b"full:0")].push(message.clone());
            }
        }
        heard[0].len() == heard[1].len() && heard[0].len() > STEPS / 100
    })
    .await;
    assert_eq!(heard[0], heard[1]);
}

impl Twins {
    async fn step(&mut self) {
        let owner = self.owner();
        match self.random.u8(0..24) {
            0..=7 => self.acquire(&owner).await,
            8..=13 => self.release(&owner).await,
            14 => {
                let next = self.owner();
                self.scripts("hand over", HAND_OVER, &[&owner, "TOKEN", &next, "300000000", "n"]).await;
            }
            15 => self.scripts("renew", RENEW, &["200000000", &owner, "TOKEN"]).await,
            16 => self.scripts("watch", WATCH, &["TOKEN", &owner]).await,
            17 => self.scripts("force", FORCE_UNLOCK, &["CHANNEL", "name", ""]).await,
            18..=20 => self.both("a lease ends", "if redis.call('HEXISTS', KEYS[1], 'owner') == 1 then redis.call('HSET', KEYS[1], 'deadline', '1') end", &[]).await,
            21 => self.damage().await,
            22 => self.both("waiters die", "for _, f in ipairs(redis.call('HKEYS', KEYS[1])) do if f == 'mark' or f == 'queue' or string.sub(f, 1, 2) == 'w:' then redis.call('HDEL', KEYS[1], f) end end", &[]).await,
            _ => self.both("nothing is left", "redis.call('DEL', KEYS[1])", &[]).await,
        }
        self.compare().await;
    }

    fn owner(&mut self) -> String {
        self.random.choice(&self.owners).unwrap().clone()
    }

    async fn acquire(&mut self, owner: &str) {
        let fields = self.fields().await;
        let is_idle = fields.iter().all(|field| matches!(field.as_str(), "token" | "mark"));
        self.short[0] += usize::from(is_idle && fields.contains(&"token".to_owned()));
        let wait = ["0", "0", "0", "1", "60000000"][self.random.usize(0..5)];
        let ttl = ["100000000", "400000000"][self.random.usize(0..2)];
        self.scripts("acquire", ACQUIRE, &[owner, ttl, "some metadata", wait]).await;
    }

    async fn release(&mut self, owner: &str) {
        let (fields, holder) = (self.fields().await, self.holder().await);
        let owner = if holder.len() == 32 && self.random.bool() { &holder } else { owner };
        let is_awaited = fields.iter().any(|field| matches!(field.as_str(), "mark" | "queue"));
        self.short[1] += usize::from(holder == owner && !is_awaited);
        let next = self.owner();
        if self.random.bool() {
            self.scripts("release", RELEASE, &[owner, "CHANNEL", "name", ""]).await;
        } else {
            let and_grant = [owner, "CHANNEL", "name", "", &next, "500000000", "next"];
            self.scripts("release", RELEASE, &and_grant).await;
        }
    }

    /// Puts something odd into a field, or in place of the record.
    async fn damage(&mut self) {
        let field =
            ["token", "token", "owner", "deadline", "ttl", "mark", "shared", "queue", "metadata", "other"]
                [self.random.usize(0..10)];
        let value = ODD[self.random.usize(0..ODD.len())];
        if self.random.u8(0..10) == 0 {
            self.both("another kind of record", "redis.call('SET', KEYS[1], 'x')", &[]).await;
        } else {
            self.both("damage", "redis.pcall('HSET', KEYS[1], ARGV[1], ARGV[2])", &[field, value]).await;
            // Most damage would end all progress.
            if self.random.u8(0..8) > 0 {
                self.compare().await;
                let owner = self.owner();
                self.acquire(&owner).await;
                self.compare().await;
                self.release(&owner).await;
                self.compare().await;
                self.both("repair", "redis.call('DEL', KEYS[1])", &[]).await;
            }
        }
    }

    async fn both(&mut self, what: &str, script: &str, arguments: &[&str]) {
        self.scripts(what, [script; 2], arguments).await;
    }

    /// Runs one script on each twin, one right after the other, and compares what they answer.
    async fn scripts(&mut self, what: &str, scripts: [&str; 2], arguments: &[&str]) {
        self.steps.push(format!("{what} {arguments:?}"));
        let mut commands = redis::pipe();
        for (twin, script) in TWINS.iter().zip(scripts) {
            commands.cmd("EVAL").arg(script).arg(1).arg(twin);
            let token: Option<String> = redis::cmd("HGET")
                .arg(twin)
                .arg("token")
                .query_async(&mut self.raw)
                .await
                .unwrap_or_default();
            for argument in arguments {
                match *argument {
                    "CHANNEL" => commands.arg(twin),
                    "TOKEN" => commands.arg(token.as_deref().unwrap_or_default()),
                    argument => commands.arg(argument),
                };
            }
        }
        let answers = self.raw.send_packed_commands(&commands, 0, 2).await.unwrap();
        self.check(&answers[0], &answers[1], false).await;
    }

    async fn compare(&mut self) {
        let mut looks = redis::pipe();
        for twin in TWINS {
            looks.cmd("HGETALL").arg(twin).cmd("TYPE").arg(twin).cmd("PTTL").arg(twin);
        }
        let looks = self.raw.send_packed_commands(&looks, 0, 6).await.unwrap();
        self.check(&looks[0], &looks[3], true).await;
        self.check(&looks[1], &looks[4], true).await;
        let (Value::Int(fast), Value::Int(full)) = (&looks[2], &looks[5]) else { panic!("{looks:?}") };
        assert_eq!(*fast < 0, *full < 0, "{fast} {full}\n{}", self.story());
        // The short cut leaves the expiry of the lease, which is later than needed, unless somebody else
        // has raised the token since.
        let is_early = *fast < *full - TOLERANCE / 1000;
        assert!(!is_early || *full > BEYOND / 1000, "{fast} {full}\n{}", self.story());
    }

    async fn check(&mut self, fast: &Value, full: &Value, is_stored: bool) {
        // An answer may tell how far something is away.
        let now = if is_stored { now(&mut self.raw).await } else { i64::MAX - BEYOND };
        assert!(alike(now, fast, full), "{fast:?}\n{full:?}\n{}", self.story());
    }

    fn story(&self) -> String {
        let from = self.steps.len().saturating_sub(12);
        format!("after {} steps, the last of them\n{}", self.steps.len(), self.steps[from..].join("\n"))
    }

    async fn fields(&mut self) -> Vec<String> {
        redis::cmd("HKEYS").arg(TWINS[0]).query_async(&mut self.raw).await.unwrap_or_default()
    }

    async fn holder(&mut self) -> String {
        redis::cmd("HGET").arg(TWINS[0]).arg("owner").query_async(&mut self.raw).await.unwrap_or_default()
    }
}

async fn now(raw: &mut MultiplexedConnection) -> i64 {
    let (seconds, micros): (i64, i64) = redis::from_redis_value(run(raw, "TIME").await).unwrap();
    seconds * 1_000_000 + micros
}

/// Whether two answers are the same but for the moment at which they were given.
fn alike(now: i64, one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| alike(now, one, two))
        }
        (Value::Map(_), Value::Map(_)) => {
            let read =
                |value: &Value| redis::from_redis_value::<BTreeMap<String, String>>(value.clone()).unwrap();
            let (one, two) = (read(one), read(two));
            one.keys().eq(two.keys())
                && one.values().zip(two.values()).all(|(one, two)| alike_texts(now, one, two))
        }
        (Value::Int(one), Value::Int(two)) => alike_numbers(now, *one, *two),
        (Value::BulkString(one), Value::BulkString(two)) => {
            alike_texts(now, std::str::from_utf8(one).unwrap(), std::str::from_utf8(two).unwrap())
        }
        // Their texts have line numbers.
        (Value::ServerError(one), Value::ServerError(two)) => one.code() == two.code(),
        _ => one == two,
    }
}

/// Times may stand among other words.
fn alike_texts(now: i64, one: &str, two: &str) -> bool {
    one == two
        || one.split(' ').count() == two.split(' ').count()
            && one.split(' ').zip(two.split(' ')).all(|(one, two)| match (one.parse(), two.parse()) {
                (Ok(number), Ok(other)) => alike_numbers(now, number, other),
                _ => one == two,
            })
}

fn alike_numbers(now: i64, one: i64, two: i64) -> bool {
    // Small ones are codes and counts.
    one == two || one.min(two) > 1000 && one.max(two) < now + BEYOND && (one - two).abs() < TOLERANCE
}

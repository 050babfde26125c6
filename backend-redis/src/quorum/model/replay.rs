//! The model's nodes beside the scripts, step by step, so that one can't change without the other.
//!
//! What the model did at its nodes is done again by the scripts on a real server; each answer and each record
//! has to be the same. The scripts take the time from the test, and are what they are otherwise.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use distlock_core::OwnerId;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult, Value};

use super::super::ballot::Vote;
use super::super::node::{extension, passing, voted};
use super::node::{Answer, Node, Owner, Request};
use super::world::World;
use super::{Rules, Step, seed};
use crate::reply::{number, parts};
use crate::script::{self, By, Script};

/// How many runs there are of each kind.
const RUNS: u64 = 12;

#[tokio::test]
async fn the_scripts_do_what_the_model_does() {
    let Some(server) = Server::start().await else { return };
    let first = seed().unwrap_or_else(|| fastrand::u64(..1 << 32));
    eprintln!("replay: MODEL_SEED={first}");
    let mut scripts = Scripts::on(&server).await;
    let start = scripts.time().await;
    let mut count = 0;
    for seed in first..first + RUNS {
        for nodes in [3, 5] {
            let calm = Rules { start, has_floor: true, ..Rules::new(nodes) };
            for rules in [Rules { wipes: 3, hold_off: 1000, ..calm.clone() }, calm] {
                let mut world = World::new(&rules, seed);
                world.steps = Some(Vec::new());
                world.run(600);
                scripts.forget(nodes).await;
                for (at, step) in world.steps.unwrap_or_default().into_iter().enumerate() {
                    let context = format!("MODEL_SEED={seed}, {rules:?}, step {at}: {step:?}");
                    scripts.repeat(&rules, &step, &context).await;
                    count += 1;
                }
            }
        }
    }
    assert!(count > 100 * RUNS, "too little happened: {count} steps");
}

/// The run of the server that the scripts are told.
const RUN: &str = "0a";

/// The scripts, whose server's clock and uptime are what the test says.
struct Scripts {
    raw: MultiplexedConnection,
    vote: Script,
    confirm: Script,
    extend: Script,
    pass: Script,
    release: Script,
    withdraw: Script,
}

impl Scripts {
    async fn on(server: &Server) -> Self {
        let mut raw = server.connection().await.unwrap();
        let uptime = format!("run_id:{RUN}\nuptime_in_seconds:1000000");
        redis::cmd("SET").arg("uptime").arg(uptime).exec_async(&mut raw).await.unwrap();
        let own = |script: &Script| {
            let text = script.text();
            assert!(text.contains("redis.call('TIME')"), "the scripts ask for the time in another way");
            let text = text.replace("redis.call('TIME')", "redis.call('MGET', 'seconds', 'micros')");
            Script::new(text.replace("redis.call('INFO', 'server')", "redis.call('GET', 'uptime')"))
        };
        Self {
            raw,
            vote: own(&script::VOTE),
            confirm: own(&script::CONFIRM),
            extend: own(&script::EXTEND),
            pass: own(&script::PASS),
            release: own(&script::RELEASE),
            withdraw: own(&script::WITHDRAW),
        }
    }

    /// What the server's own clock shows: records expire by that.
    async fn time(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut self.raw).await.unwrap();
        seconds * 1_000_000 + micros
    }

    /// The nodes are new, and old enough to vote.
    async fn forget(&mut self, nodes: usize) {
        for node in 0..nodes {
            redis::cmd("DEL").arg(record(node)).exec_async(&mut self.raw).await.unwrap();
            redis::cmd("SET")
                .arg(birth(node))
                .arg(format!("0:{RUN}"))
                .exec_async(&mut self.raw)
                .await
                .unwrap();
        }
    }

    async fn repeat(&mut self, rules: &Rules, step: &Step, context: &str) {
        let clock = step.now + step.after.skew;
        let mut set = redis::cmd("MSET");
        set.arg("seconds").arg(clock / 1_000_000).arg("micros").arg(clock % 1_000_000);
        set.exec_async(&mut self.raw).await.unwrap();
        match &step.asked {
            Some((request, answer)) => {
                let said = self.ask(rules, step, *request).await;
                assert_eq!(said, *answer, "the script's answer, and the model's; {context}");
            }
            None => {
                let names = [record(step.node), birth(step.node)];
                redis::cmd("DEL").arg(&names).exec_async(&mut self.raw).await.unwrap();
            }
        }
        let stored = self.stored(step.node).await;
        assert_eq!(stored, fields(&step.after), "the record, and the model's; {context}");
    }

    async fn ask(&mut self, rules: &Rules, step: &Step, request: Request) -> Answer {
        let owner = owner_id(step.owner).to_string();
        let (ttl, hold_off) = (step.after.ttl(rules).to_string(), rules.hold_off.to_string());
        let (attempt, keys) = (step.attempt.to_string(), [record(step.node), birth(step.node)]);
        let (owner, attempt) = (owner.as_bytes(), attempt.as_bytes());
        let one = std::slice::from_ref(&keys[0]);
        let command = match request {
            Request::Vote => self.vote.invoke(
                By::Text,
                &keys,
                &[owner, ttl.as_bytes(), b"", b"0", attempt, hold_off.as_bytes()],
            ),
            Request::Confirm(token) => {
                self.confirm.invoke(By::Text, one, &[owner, token.to_string().as_bytes()])
            }
            Request::Extend { token, put_back } => {
                let puts_back: &[u8] = if put_back { b"1" } else { b"0" };
                let token = token.to_string();
                let arguments = [ttl.as_bytes(), puts_back, hold_off.as_bytes(), owner, token.as_bytes()];
                self.extend.invoke(By::Text, &keys, &arguments)
            }
            Request::Pass { tokens: [old, token], next } => {
                let (old, token, next) = (old.to_string(), token.to_string(), owner_id(next).to_string());
                let (old, token, next) = (old.as_bytes(), token.as_bytes(), next.as_bytes());
                self.pass.invoke(By::Text, one, &[owner, old, next, token, ttl.as_bytes(), b"", attempt])
            }
            Request::Release => self.release.invoke(By::Text, one, &[owner, b"channel", b"key", b""]),
            Request::Withdraw => {
                let arguments = [owner, b"channel", b"key", b"", b"", b"", b"", attempt];
                self.withdraw.invoke(By::Text, one, &arguments)
            }
        };
        let value: Value = command.query_async(&mut self.raw).await.unwrap();
        match request {
            Request::Vote => Answer::Vote(by_number(voted(parts(&value).unwrap()).unwrap().vote())),
            Request::Confirm(_) => Answer::Confirmed(number(&value).unwrap() == 1),
            Request::Extend { .. } => Answer::Extended(extension(&parts(&value).unwrap()[0]).unwrap()),
            Request::Pass { .. } => Answer::Passed(passing(parts(&value).unwrap()).unwrap().0),
            Request::Release | Request::Withdraw => {
                assert!(matches!(number(&value).unwrap(), 0..=2));
                Answer::Done
            }
        }
    }

    async fn stored(&mut self, node: usize) -> Vec<Option<String>> {
        let mut ask = redis::cmd("HMGET");
        ask.arg(record(node)).arg(&["owner", "deadline", "token", "before", "agreed", "attempt"]);
        let mut fields: Vec<Option<String>> = ask.query_async(&mut self.raw).await.unwrap();
        // To the scripts, nothing is as good as 0.
        fields.iter_mut().for_each(|field| drop(field.take_if(|text| text == "0")));
        fields.push(redis::cmd("GET").arg(birth(node)).query_async(&mut self.raw).await.unwrap());
        fields
    }
}

/// A node's record as the scripts write it.
fn fields(node: &Node) -> Vec<Option<String>> {
    let number = |number: u64| (number > 0).then(|| number.to_string());
    let deadline = node.owner.map(|_| (node.deadline + node.skew).to_string());
    let born = node.born.map(|born| if born == 0 { 0 } else { born + node.skew });
    vec![
        node.owner.map(|owner| owner_id(owner).to_string()),
        deadline,
        number(node.token),
        number(node.before),
        number(node.agreed),
        number(node.attempt),
        born.map(|born| format!("{born}:{RUN}")),
    ]
}

fn owner_id(owner: Owner) -> OwnerId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&owner.to_be_bytes());
    OwnerId::from_bytes(&bytes).unwrap()
}

/// The vote, with the model's owners.
fn by_number(vote: Vote<OwnerId>) -> Vote<Owner> {
    let number = |id: OwnerId| Owner::from_be_bytes(id.as_bytes()[..4].try_into().unwrap());
    match vote {
        Vote::Granted { token, agreed } => Vote::Granted { token, agreed },
        Vote::Busy { holder, agreed } => Vote::Busy { holder: holder.map(number), agreed },
        Vote::Silent => Vote::Silent,
    }
}

fn record(node: usize) -> Vec<u8> {
    format!("record {node}").into_bytes()
}

fn birth(node: usize) -> Vec<u8> {
    format!("birth {node}").into_bytes()
}

/// A real server, which ends with this value.
struct Server {
    folder: tempfile::TempDir,
    child: Child,
}

impl Server {
    /// None, loudly, if none is installed and none is required.
    async fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(folder.path().join("sock"));
        let child = match command.arg("--dir").arg(folder.path()).stdout(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => {
                let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
                assert!(!is_required, "redis-server can't be started: {error}");
                eprintln!("NOT TESTED: redis-server can't be started: {error}");
                return None;
            }
        };
        let server = Self { folder, child };
        let mut tries = 0;
        while let Err(error) = server.connection().await {
            tries += 1;
            assert!(tries < 1500, "the server does not come up: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Some(server)
    }

    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        let url = format!("redis+unix://{}", self.folder.path().join("sock").display());
        // The driver's own limits are too short for a busy machine.
        let limit = Some(Duration::from_secs(20));
        let config = AsyncConnectionConfig::new().set_connection_timeout(limit).set_response_timeout(limit);
        redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

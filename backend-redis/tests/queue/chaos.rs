//! Whatever happens to a queue in whatever order: the list stays whole, and turns are kept.

use std::collections::HashMap;

use distlock_core::{Claim, LockBackend, LockRequest, Release, TryLock};
use redis::aio::MultiplexedConnection;

use crate::rig::*;
use crate::support::{Server, key, request, tests};

tests! {
    the_list_stays_whole_and_turns_are_kept,
}

/// The record, as it stands.
#[derive(Debug)]
struct Seen {
    owner: Option<String>,
    token: u64,
    is_held: bool,
    /// Who queues, the first one first, and whether it is alive.
    queue: Vec<(String, bool)>,
}

impl Seen {
    fn first_alive(&self) -> Option<&str> {
        self.queue.iter().find(|(_, alive)| *alive).map(|(owner, _)| owner.as_str())
    }
}

/// Reads the record and checks that the list is one.
async fn look(raw: &mut MultiplexedConnection) -> Seen {
    let mut both = redis::pipe();
    both.cmd("TIME").cmd("HGETALL").arg("distlock:lock:k");
    let ((seconds, micros), fields): ((u64, u64), HashMap<String, String>) =
        both.query_async(raw).await.unwrap();
    let now = seconds * 1_000_000 + micros;
    let number = |name: &str| fields.get(name).map_or(0, |value| value.parse::<u64>().unwrap());
    let places = fields.keys().filter(|name| name.starts_with("w:")).count();
    let mut queue = Vec::new();
    if let Some(ends) = fields.get("queue") {
        let ends: Vec<_> = ends.split(' ').collect();
        let (mut before, mut at) = ("-", ends[0]);
        while at != "-" {
            let place: Vec<_> = fields[&format!("w:{at}")].split(' ').collect();
            assert_eq!(place[2], before, "who stands in front: {fields:?}");
            queue.push((at.to_owned(), place[0].parse::<u64>().unwrap() > now));
            assert!(queue.len() <= places, "a circle: {fields:?}");
            (before, at) = (at, place[3]);
        }
        assert_eq!(before, ends[1], "the last: {fields:?}");
        assert_eq!(ends[2].parse::<usize>().unwrap(), queue.len(), "the size: {fields:?}");
    }
    assert_eq!(places, queue.len(), "all places are in the list: {fields:?}");
    let owner = fields.get("owner").cloned();
    assert!(!queue.iter().any(|(queues, _)| Some(queues) == owner.as_ref() && number("deadline") > now));
    Seen { is_held: owner.is_some() && number("deadline") > now, owner, token: number("token"), queue }
}

async fn the_list_stays_whole_and_turns_are_kept() {
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (backend_with(&server, LONG).await, server.raw().await);
    let admin = backend.admin().unwrap();
    let mut claims: Vec<Claim> = (0..8).map(|_| Claim::mint(key("k"))).collect();
    let mut lease = None::<distlock_core::Lease>;
    let mut grants = 0;
    for step in 0..4000 {
        let seen = look(&mut raw).await;
        let nth = random.usize(..claims.len());
        let claim = claims[nth].clone();
        let name = claim.owner.to_string();
        let wish = LockRequest::new(claim.clone(), LONG);
        let action = random.u32(..100);
        let what = format!("step {step}: {action} by {name} in {seen:?}");
        let is_own = seen.is_held && seen.owner.as_ref() == Some(&name);
        match action {
            0..50 => {
                let queues = random.u32(..4) > 0;
                let front = seen.queue.iter().take_while(|(queues, _)| *queues != name);
                let is_turn = match queues {
                    true => !front.into_iter().any(|(_, alive)| *alive),
                    false => seen.first_alive().is_none_or(|first| first == name),
                };
                let answer = backend.try_lock(&wish.queue(queues)).await.unwrap();
                let granted = matches!(answer, TryLock::Acquired(_));
                assert_eq!(granted, is_own || !seen.is_held && is_turn, "{what}: {answer:?}");
                if let TryLock::Acquired(granted) = answer {
                    let token = granted.token.get();
                    assert!(if is_own { token == seen.token } else { token > seen.token }, "{what}: {token}");
                    grants += 1;
                    lease = Some(granted);
                }
            }
            50..75 => {
                let released = backend.unlock(&claim).await.unwrap();
                assert_eq!(released == Release::Released, is_own, "{what}: {released:?}");
                assert!(!look(&mut raw).await.queue.iter().any(|(queues, _)| *queues == name), "{what}");
                claims[nth] = Claim::mint(key("k"));
            }
            75..83 => {
                let Some(held) = lease.take() else { continue };
                let is_current = seen.is_held && seen.owner == Some(held.claim.owner.to_string());
                let answer = backend.hand_over(&held, &wish).await.unwrap();
                let passed = matches!(answer, TryLock::Acquired(_));
                assert_eq!(passed, is_current && seen.token == held.token.get(), "{what}: {answer:?}");
            }
            83..93 => {
                let Some((dead, _)) = seen.queue.get(random.usize(..9)) else { continue };
                move_signs(&mut raw, std::slice::from_ref(dead), -3_600_000_000).await;
            }
            93..95 => {
                // The lease ends by itself.
                let mut ends = redis::cmd("HSET");
                ends.arg("distlock:lock:k").arg("deadline").arg(1);
                if seen.owner.is_some() {
                    ends.exec_async(&mut raw).await.unwrap();
                }
            }
            95..97 => drop(admin.force_unlock(&key("k")).await.unwrap()),
            97..99 => drop(admin.inspect(&key("k")).await.unwrap()),
            // Somebody else, who does not queue.
            _ => drop(backend.try_lock(&request("k", LONG)).await.unwrap()),
        }
    }
    look(&mut raw).await;
    assert!(grants > 100, "{grants}");
}

//! Looking at the servers behind the backend's back.

use std::pin::Pin;
use std::time::Duration;

use distlock_core::{Claim, LockBackend, LockKey, LockRequest, StoreUrl};
use distlock_redis::RedisBackend;
use distlock_testbed::{Server, ServiceSet};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};

/// Name, group of servers, what to do with them.
pub(crate) type Test =
    (&'static str, &'static str, for<'a> fn(&'a ServiceSet) -> Pin<Box<dyn Future<Output = ()> + 'a>>);

/// The tests of a module that run on a group of servers.
macro_rules! tests {
    ($($group:literal: $($name:ident),* $(,)?;)*) => {
        pub(crate) fn tests() -> Vec<crate::servers::Test> {
            vec![$($((concat!(module_path!(), "::", stringify!($name)), $group, |set| Box::pin($name(set)))),*),*]
        }
    };
}
pub(crate) use crate::polling::eventually;
pub(crate) use tests;

pub(crate) async fn connect(url: &str) -> RedisBackend {
    RedisBackend::from_url(&mut StoreUrl::parse(url).unwrap()).await.unwrap()
}

pub(crate) fn request(key: &str, ttl: Duration) -> LockRequest {
    LockRequest::new(Claim::mint(LockKey::new(key).unwrap()), ttl)
}

/// A connection to one server.
pub(crate) async fn raw(server: &Server) -> MultiplexedConnection {
    open(server).await.unwrap()
}

async fn open(server: &Server) -> redis::RedisResult<MultiplexedConnection> {
    let url = format!("redis://{}?protocol=resp3", server.address());
    redis::Client::open(url)?.get_multiplexed_async_connection().await
}

/// Sends words to a server.
pub(crate) async fn ask<T: FromRedisValue>(server: &Server, words: &str) -> redis::RedisResult<T> {
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command.query_async(&mut open(server).await?).await
}

pub(crate) async fn is_master(server: &Server) -> bool {
    has_role(server, b"master").await
}

pub(crate) async fn is_replica(server: &Server) -> bool {
    has_role(server, b"slave").await
}

/// Whether it says so now; a demotion breaks connections.
async fn has_role(server: &Server, wanted: &[u8]) -> bool {
    let role = ask::<Vec<Value>>(server, "ROLE").await;
    role.is_ok_and(|role| role[0] == Value::BulkString(wanted.to_vec()))
}

/// Waits until one of the servers is a master, and says which.
pub(crate) async fn new_master(servers: &[Server]) -> Server {
    let mut found = None;
    eventually("another master", async || {
        for server in servers {
            if is_master(server).await {
                found = Some(server.clone());
            }
        }
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// The record of a key under the default prefix, on one server; none if it has none.
pub(crate) async fn owner_at(server: &Server, record: &str) -> Option<String> {
    ask(server, &format!("HGET {record} owner")).await.unwrap()
}

/// How a test comes to a lock although the servers change places: by trying for 30 s.
pub(crate) async fn lock(backend: &RedisBackend, request: &LockRequest) -> distlock_core::Lease {
    let deadline = distlock_core::Deadline::after(&backend.clock(), Duration::from_secs(30));
    backend.lock(request, deadline).await.unwrap()
}

/// Makes the user `locks` with the password `secret`, with the rights that the documentation names.
pub(crate) async fn allow(server: &Server, more: &str) {
    let rights = "ACL SETUSER locks on >secret ~distlock:* &distlock:* +@hash +@scripting +@pubsub +@connection \
                  +time +exists +pexpireat +info";
    ask::<()>(server, &format!("{rights} {more}")).await.unwrap();
}

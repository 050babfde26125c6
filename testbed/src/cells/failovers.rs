//! F11 and F12: servers that forget, and servers that take over without having heard of the last grant.

use std::time::Duration;

use distlock_conformance::Server as _;

use crate::ServiceSet;

use super::rig::{AMPLE, Harm, Rig, until};
use super::tools::{mariadb, psql, redis};
use super::usurping::{act_late, be_told, hold, release, succeed};

/// Longer than a failover takes.
const TTL: Duration = Duration::from_secs(30);

/// The data of all servers are gone at once.
pub(super) async fn forgotten(rig: Rig) {
    let set = rig.servers().await;
    let url = set.url(rig.group()).to_owned();
    let info = rig.client(&url).await.expect("the store takes clients").info().clone();
    let (mut one, mut two) = (rig.probe(&url).await, rig.probe(&url).await);
    let key = rig.key();
    let token = hold(&mut one, &key, TTL).await;
    redis(&set.server("ms0"), "FLUSHALL").expect("the master forgets");
    succeed(&mut two, &key, TTL, token).await;
    act_late(&mut one).await;
    be_told(&rig, &mut one, TTL + AMPLE).await;
    release(&mut two).await;
    let recovery = rig.recover(vec![one, two], TTL).await;
    rig.judge(&info, "FLUSHALL on the master and, by that, on its replicas", Harm::Overlapped, recovery);
    set.down().await;
}

/// The server fails that has the last grant, and another one takes over that has not.
pub(super) async fn taken_over(rig: Rig) {
    let set = rig.servers().await;
    let url = all_of(&set, rig.group());
    let info = rig.client(&url).await.expect("the store takes clients").info().clone();
    let (mut one, mut two) = (rig.probe(&url).await, rig.probe(&url).await);
    let key = rig.key();
    // The others know all that came before.
    for probe in [&mut one, &mut two] {
        probe.lock(&key, TTL, AMPLE).await;
        release(probe).await;
    }
    part(&set, rig.group()).await;
    let token = hold(&mut one, &key, TTL).await;
    let means = take_over(&set, rig.group(), &key).await;
    succeed(&mut two, &key, TTL, token).await;
    act_late(&mut one).await;
    be_told(&rig, &mut one, TTL + AMPLE).await;
    release(&mut two).await;
    let recovery = rig.recover(vec![one, two], TTL).await;
    rig.judge(&info, means, Harm::Overlapped, recovery);
    set.down().await;
}

/// A URL that names all servers that may be asked.
fn all_of(set: &ServiceSet, group: &str) -> String {
    let [url, other] = match group {
        "pgstandby" => ["pgstandby", "pgstandby_standby"].map(|name| set.url(name)),
        "mysqlreplica" => ["mysqlreplica", "mysqlreplica_replica"].map(|name| set.url(name)),
        _ => return set.url(group).to_owned(),
    };
    let host = |url: &str| url.split(['@', '/']).nth(3).expect("user@host:port").to_owned();
    url.replace(&host(url), &format!("{},{}", host(url), host(other)))
}

/// Lets nothing more reach the servers that are to take over.
async fn part(set: &ServiceSet, group: &str) {
    match group {
        "pgstandby" => {
            let standby = set.server("pgs1");
            // What was granted so far has to have arrived.
            let held = "SELECT count(*) FROM distlock_locks";
            until("the standby has come so far", AMPLE, async || {
                psql(&standby, held).is_ok_and(|count| count.trim() != "0")
            })
            .await;
            psql(&standby, "ALTER SYSTEM SET primary_conninfo = ''").expect("a standby can be set up");
            psql(&standby, "SELECT pg_reload_conf()").expect("a standby can be set up");
            until("it receives nothing", AMPLE, async || {
                psql(&standby, "SELECT count(*) FROM pg_stat_wal_receiver")
                    .is_ok_and(|count| count.trim() == "0")
            })
            .await;
        }
        "mysqlreplica" => {
            let [primary, replica] = ["my0", "my1"].map(|name| set.server(name));
            let rows = "SELECT count(*) FROM locks.distlock_locks";
            until("the replica has come so far", AMPLE, async || {
                let [there, here] = [&primary, &replica].map(|server| mariadb(server, rows).ok());
                there.is_some() && there == here
            })
            .await;
            mariadb(&replica, "STOP SLAVE").expect("a replica can be stopped");
        }
        _ => {
            let (masters, replicas) = redis_servers(set, group);
            for replica in &replicas {
                replica.pause().await;
            }
            // What is in a socket's buffer already would still arrive.
            for master in &masters {
                redis(master, "CLIENT KILL TYPE replica").expect("a master cuts its replicas off");
            }
        }
    }
}

/// Kills the server with the grant, and lets another one take over. How, is returned.
async fn take_over(set: &ServiceSet, group: &str, key: &str) -> &'static str {
    match group {
        "pgstandby" => {
            set.server("pgs0").kill9().await;
            psql(&set.server("pgs1"), "SELECT pg_promote(true, 60)").expect("a standby can be promoted");
            "an asynchronous standby that lacks the grant is promoted"
        }
        "mysqlreplica" => {
            set.server("my0").kill9().await;
            let replica = set.server("my1");
            mariadb(&replica, "RESET SLAVE ALL; SET GLOBAL read_only = 0")
                .expect("a replica can be promoted");
            "a replica that lacks the grant is promoted"
        }
        _ => {
            let (masters, replicas) = redis_servers(set, group);
            let has = |master: &&crate::Server| {
                redis(master, &format!("KEYS *lock:{key}")).is_ok_and(|keys| !keys.trim().is_empty())
            };
            masters.iter().find(has).expect("a master has the lock").kill9().await;
            for replica in &replicas {
                replica.resume().await;
            }
            "a replica that lacks the grant takes over from a killed master"
        }
    }
}

fn redis_servers(set: &ServiceSet, group: &str) -> (Vec<crate::Server>, Vec<crate::Server>) {
    let of = |names: &[&str]| names.iter().map(|name| set.server(name)).collect();
    match group {
        "sentinel" => (of(&["ms0"]), of(&["ms1", "ms2"])),
        _ => (of(&["cl0", "cl1", "cl2"]), of(&["cl3", "cl4", "cl5"])),
    }
}

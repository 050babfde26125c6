//! How the cluster is doing.

use distlock_core::{Health, Result};
use etcd_client::{Client, StatusResponse};

use crate::error::Failure;
use crate::store::Store;

/// Asks every member how it is.
pub(crate) async fn probe(store: &Store) -> Result<Health> {
    let asked = store.clock.now();
    sign_of_life(store).await?;
    let mut health = Health::new(None, store.clock.now().since(asked));
    let ask = |client: &Client| {
        let mut maintenance = client.maintenance_client();
        async move { maintenance.status().await }
    };
    let members = store.link.each(ask).await;
    let has_successors = members.len() > 1;
    let mut terms = Vec::new();
    for (server, status) in members {
        match status {
            Ok(status) => {
                health.version = health.version.or_else(|| Some(format!("etcd {}", status.version())));
                terms.push(status.leader());
                health = look_at(health, server, &status);
                if has_successors && ends_leases_early(status.version()) {
                    health = health.warn(
                        format!(
                            "{server} is of release {}, in which a leader that stood still may end leases early once it goes on",
                            status.version()
                        ),
                        "use 3.4.31, 3.5.13 or a later release",
                    );
                }
            }
            Err(failure) => health = silent(health, server, &failure),
        }
    }
    terms.retain(|leader| *leader != 0);
    terms.dedup();
    if terms.len() > 1 {
        health = health.warn(
            "the members name different leaders",
            "ask again: an election may be under way; if it lasts, see that all addresses are of one cluster",
        );
    }
    Ok(health)
}

/// Reads what every operation compares.
pub(crate) async fn sign_of_life(store: &Store) -> Result<()> {
    store.floor.read(store).await
}

fn look_at(mut health: Health, server: &str, status: &StatusResponse) -> Health {
    if status.leader() == 0 {
        health = health
            .warn(format!("{server} knows no leader"), "see whether most members run and reach each other");
    }
    if status.is_learner() {
        health = health.warn(
            format!("{server} is a learner, which serves nobody"),
            "promote it with `etcdctl member promote`, or leave its address out",
        );
    }
    for error in status.errors() {
        health = health.warn(
            format!("{server} reports {error}"),
            if error.contains("NOSPACE") {
                "compact and defragment the store or raise --quota-backend-bytes, then `etcdctl alarm disarm`"
            } else {
                "see `etcdctl alarm list` and the server's log"
            },
        );
    }
    health
}

/// Whether a leader of this release that stood still, and goes on, revokes leases that its successor has prolonged:
/// etcd-io/etcd#15247.
fn ends_leases_early(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']).map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    match (major, minor) {
        (3, 4) => patch < 31,
        (3, 5) => patch < 13,
        release => release < (3, 4),
    }
}

fn silent(health: Health, server: &str, failure: &Failure) -> Health {
    let fix = "see whether it runs; the others serve as long as they are the majority";
    health.warn(format!("{server} does not say how it is: {}", failure.error), fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_with_the_fault_are_known() {
        for version in ["3.3.27", "3.4.0", "3.4.30", "3.5.1", "3.5.12", "3.5.0-rc.1", "2.3.8"] {
            assert!(ends_leases_early(version), "{version}");
        }
        for version in ["3.4.31", "3.5.13", "3.5.16", "3.6.0", "3.7.0-alpha.0", "4.0.0", "", "3.5", "unknown"]
        {
            assert!(!ends_leases_early(version), "{version}");
        }
    }
}

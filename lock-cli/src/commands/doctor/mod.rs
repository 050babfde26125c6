//! `distlock doctor`.

mod failing;

use std::time::Duration;

use distlock::{Error, LockClient, LockKey, OwnerId, Release, WaitPolicy};

use crate::arguments::Global;
use crate::exit::{Exit, Failure};
use crate::output::{Diagnosis, Printer};
use crate::store;

/// Of the lock that is taken for trial, should this process die with it.
const TTL: Duration = Duration::from_secs(10);

pub(super) async fn execute(global: &Global, printer: &Printer) -> Result<Exit, Failure> {
    let mut diagnosis = Diagnosis::of(store::shown_url(global)?);
    let exit = examine(global, &mut diagnosis).await?;
    printer.print(&diagnosis)?;
    Ok(exit)
}

async fn examine(global: &Global, diagnosis: &mut Diagnosis) -> Result<Exit, Failure> {
    let client = match distlock::connect(&store::url(global)?).await {
        Ok(client) => client,
        // The command line is at fault, not the store.
        Err(error) if Exit::of(error.kind()) == Exit::BadUsage => return Err(error.into()),
        Err(error) => return Ok(add(diagnosis, "reach", &error)),
    };
    diagnosis.is_of(client.info().name);
    let mut failure = None;
    match client.probe().await {
        Ok(health) => diagnosis.probed(health),
        Err(error) => failure = Some(add(diagnosis, "reach", &error)),
    }
    if !client.info().supports.processes {
        diagnosis.warn(
            "settings",
            "the store is this process's alone: no other process respects its locks",
            "give the URL of a store that all processes reach",
        );
    }
    if failure.is_none() {
        failure = rehearse(&client, diagnosis).await;
    }
    super::close(&client).await;
    Ok(failure.unwrap_or(if diagnosis.has_findings() { Exit::Negative } else { Exit::Success }))
}

/// Does with a lock of its own what users do with theirs. The status of what failed first.
async fn rehearse(client: &LockClient, diagnosis: &mut Diagnosis) -> Option<Exit> {
    let key = match LockKey::new(format!("doctor/{}", OwnerId::random())) {
        Ok(key) => key,
        Err(error) => return Some(add(diagnosis, "use", &error)),
    };
    let options = client.options().defaults.clone().ttl(TTL).wait(WaitPolicy::No);
    let guard = match client.lock_with(&key, &options).await {
        Ok(guard) => guard,
        Err(error) => return Some(add(diagnosis, "use", &error)),
    };
    let mut failure = None;
    if let Err(error) = guard.renew().await {
        failure.get_or_insert(add(diagnosis, "use", &error));
    }
    if let Ok(admin) = client.admin() {
        match admin.inspect(&key).await {
            Ok(Some(record)) if record.holders.iter().any(|holder| holder.owner == guard.owner()) => {}
            Ok(_) => diagnosis.warn(
                "look",
                "a lock that was just taken does not show",
                "see that reads go to the same server as writes, not to a replica",
            ),
            Err(error) => _ = failure.get_or_insert(add(diagnosis, "look", &error)),
        }
        if let Err(error) = admin.list(b"doctor/", None, 1).await {
            failure.get_or_insert(add(diagnosis, "look", &error));
        }
    }
    match guard.unlock().await {
        Ok(Release::Released) => {}
        Ok(Release::NotHeld(reason)) => diagnosis.warn(
            "use",
            &format!("a lock was lost at once: {reason}"),
            "see whether somebody else writes to the locks' records, or the server was just restarted",
        ),
        Err(error) => _ = failure.get_or_insert(add(diagnosis, "use", &error)),
    }
    diagnosis.fine("use", "a lock can be taken, renewed and given back");
    if client.admin().is_ok() {
        diagnosis.fine("look", "locks can be inspected and listed");
    }
    failure
}

fn add(diagnosis: &mut Diagnosis, doing: &'static str, error: &Error) -> Exit {
    diagnosis.failed(failing::check(error, doing), &error.to_string(), failing::fix(error));
    Exit::of(error.kind())
}

//! `distlock run`.

use std::time::Duration;

use distlock::{Error, LockClient, LockGuard, LockState, LostReason, Metadata, Release, WaitPolicy};

use crate::arguments::{Global, Run};
use crate::durations::{exactly, roughly};
use crate::endpoint::Endpoint;
use crate::exit::{Exit, Failure};
use crate::labels;
use crate::message::{is_watched, say};
use crate::run::{Outcome, Signals, Supervision, asked_to_end};
use crate::store;

/// Default time between SIGTERM and SIGKILL; less for short ttls.
const GRACE: Duration = Duration::from_secs(5);

pub(super) async fn execute(global: &Global, run: Run) -> Result<Exit, Failure> {
    // Before the store is touched.
    let ttl = match run.ttl {
        Some(ttl) => ttl,
        None => store::ttl(global)?,
    };
    let grace = grace(run.grace, ttl)?;
    let labels = labels::of_run(&store::metadata(global)?, &run.command, &run.labels)?;
    let mut signals = Signals::listen().map_err(|error| Failure::system("can't listen to signals", error))?;
    let endpoint = match run.metrics_listen {
        Some(address) => Some(Endpoint::open(address).await?),
        None => None,
    };
    let client = tokio::select! {
        client = store::connect(global) => client?,
        signal = asked_to_end(&mut signals) => return Ok(Exit::by(signal)),
    };
    let _serving = endpoint.map(|endpoint| {
        let address = endpoint.address();
        // Else nobody could know which port it is.
        if run.verbose || Some(address) != run.metrics_listen {
            say(&format!("metrics at http://{address}/metrics"));
        }
        endpoint.serve(&client)
    });
    if !client.info().supports.processes {
        say(&format!(
            "the store {} is this process's alone, so no other process respects the lock; give --url",
            client.info().name
        ));
    }
    let clock = client.clock();
    let asked = clock.now();
    let guard = tokio::select! {
        guard = take(&client, &run, ttl, labels) => match guard {
            Ok(guard) => guard,
            Err(error) => {
                // Leaves the queue before this process ends, or its place would hold up others.
                super::close(&client).await;
                return Err(error.into());
            }
        },
        signal = asked_to_end(&mut signals) => {
            // Withdraws the attempt, so that nobody waits for it to run out.
            super::close(&client).await;
            return Ok(Exit::by(signal));
        }
    };
    let granted = clock.now();
    if run.verbose {
        let (key, token, waited) = (guard.key(), guard.token(), roughly(granted.since(asked)));
        say(&format!("`{key}`: locked after {waited}, with token {token}"));
    }
    let started = Supervision::start(&guard, clock.clone(), grace, run.on_lost, &run.command, &mut signals);
    let result = match started {
        Ok(supervision) => {
            let outcome = supervision.run().await;
            let (key, ended) = (guard.key().clone(), clock.now());
            let exit = settle(guard, outcome).await;
            if run.verbose {
                let (held, leaving) = (roughly(ended.since(granted)), roughly(clock.now().since(ended)));
                let status = exit.status();
                say(&format!("`{key}`: held for {held}, given back within {leaving}, status {status}"));
            }
            Ok(exit)
        }
        Err(failure) => {
            // It goes back with the client; there is nothing to add to the failure.
            drop(guard);
            Err(failure)
        }
    };
    super::close(&client).await;
    result
}

/// The given grace, or one that fits the ttl.
fn grace(given: Option<Duration>, ttl: Duration) -> Result<Duration, Failure> {
    let Some(grace) = given else { return Ok(GRACE.min(ttl / 4)) };
    if grace >= ttl / 2 {
        return Err(Failure::usage(format!(
            "a grace of {} is too long for a ttl of {}: it must be less than {} (ttl/2), or the command would be told to end while the lock is still being renewed; shorten it or lengthen --ttl",
            exactly(grace),
            exactly(ttl),
            exactly(ttl / 2)
        )));
    }
    Ok(grace)
}

async fn take(client: &LockClient, run: &Run, ttl: Duration, metadata: Metadata) -> Result<LockGuard, Error> {
    let mut options = client.options().defaults.clone().ttl(ttl).wait(run.wait).metadata(metadata);
    options.max_hold = run.max_hold.or(options.max_hold);
    if run.wait != WaitPolicy::No && is_watched() {
        // Whoever looks at the terminal wants to know why nothing happens.
        let once = options.clone().wait(WaitPolicy::No);
        match client.lock_with(&run.key, &once).await {
            Err(error) if error.is_wait_timeout() => say(&format!("{error}; waiting")),
            result => return result,
        }
    }
    client.lock_with(&run.key, &options).await
}

/// Gives the lock back and says how it all ended.
async fn settle(guard: LockGuard, outcome: Outcome) -> Exit {
    let key = guard.key().clone();
    let lost = |reason: LostReason, taken: bool| {
        let reason = match reason {
            LostReason::Expired if taken => "it was taken away".to_owned(),
            reason => reason.to_string(),
        };
        say(&format!("`{key}`: the lock was lost while the command ran: {reason}"));
        Exit::Lost
    };
    let status = if outcome.cut_short { Exit::Lost } else { Exit::Command(outcome.ending.status()) };
    if let LockState::Lost(reason) = guard.state() {
        return lost(reason, outcome.taken);
    }
    if !outcome.group_is_empty {
        let left = roughly(guard.remaining());
        say(&format!(
            "`{key}`: processes of the command can't be ended; the lock is not released and runs out in {left}"
        ));
        // Neither renewed nor released from here on.
        let _ = guard.into_lease();
        return status;
    }
    let ttl = exactly(guard.ttl());
    match guard.unlock().await {
        Ok(Release::Released) if outcome.cut_short => {
            say(&format!("`{key}`: the command was told to end because its lock could not be kept in time"));
            status
        }
        Ok(Release::Released) => status,
        // It was still valid by the clock, so it did not run out.
        Ok(Release::NotHeld(reason)) => lost(reason, true),
        Err(error) => {
            say(&format!(
                "the command has ended, but whether its lock was released is not known, so others may wait for up to {ttl}: {error}"
            ));
            status
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_grace_fits_any_ttl() {
        assert_eq!(grace(None, Duration::from_secs(30)).unwrap(), GRACE);
        assert_eq!(grace(None, Duration::from_secs(4)).unwrap(), Duration::from_secs(1));
    }

    #[test]
    fn a_long_grace_is_refused_with_the_numbers() {
        let failure = grace(Some(Duration::from_secs(15)), Duration::from_secs(30)).unwrap_err();
        assert_eq!(failure.exit, Exit::BadUsage);
        assert!(failure.message.contains("15s") && failure.message.contains("30s"), "{}", failure.message);
        assert!(grace(Some(Duration::ZERO), Duration::from_millis(100)).is_ok());
    }
}

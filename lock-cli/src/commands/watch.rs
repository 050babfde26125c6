//! `distlock watch`.

use std::time::Duration;

use distlock::LockRecord;

use super::list;
use crate::arguments::{Global, Watch};
use crate::exit::{Exit, Failure};
use crate::message::say;
use crate::output::{Printer, changes};
use crate::run::{Signals, asked_to_end};
use crate::store;

/// The pause after a change; others are likely to follow.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest pause while the store does not answer.
const SILENT: Duration = Duration::from_secs(5);

pub(super) async fn execute(global: &Global, printer: &Printer, watch: Watch) -> Result<Exit, Failure> {
    let prefix = list::read_prefix(watch.prefix.as_deref())?;
    let mut signals = Signals::listen().map_err(|error| Failure::system("can't listen to signals", error))?;
    let client = store::connect(global).await?;
    let admin = client.admin()?;
    let mut known: Option<Vec<LockRecord>> = None;
    let mut is_silent = false;
    let mut pause = SHORTEST;
    loop {
        let seen = tokio::select! {
            seen = list::all(admin, &prefix) => seen,
            signal = asked_to_end(&mut signals) => return Ok(Exit::by(signal)),
        };
        match seen {
            Ok(seen) => {
                if is_silent {
                    say("the store answers again");
                }
                is_silent = false;
                let found = changes(known.as_deref(), &seen);
                pause = if found.is_empty() { (pause * 3 / 2).min(watch.every) } else { SHORTEST };
                known = Some(seen);
                for change in &found {
                    if !printer.follow(change)? {
                        // Nobody reads on.
                        return Ok(Exit::Success);
                    }
                }
            }
            Err(error) if error.is_retryable() && known.is_some() => {
                if !is_silent {
                    say(&format!("{error}; trying again"));
                }
                is_silent = true;
                pause = (pause * 2).min(SILENT);
            }
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            signal = asked_to_end(&mut signals) => break Ok(Exit::by(signal)),
        }
    }
}

//! `distlock try`.

use distlock::WaitPolicy;

use crate::arguments::{Global, Try};
use crate::exit::{Exit, Failure};
use crate::message::say;
use crate::output::{Printer, Tried};
use crate::store;

pub(super) async fn execute(global: &Global, printer: &Printer, attempt: Try) -> Result<Exit, Failure> {
    let client = store::connect(global).await?;
    let options = client.options().defaults.clone().wait(WaitPolicy::No);
    let exit = match client.lock_with(&attempt.key, &options).await {
        Ok(guard) => {
            let report = Tried::free(&guard);
            if let Err(error) = guard.unlock().await {
                say(&format!("the lock was taken but its release is not known: {error}"));
            }
            printer.print(&report)?;
            Exit::Success
        }
        Err(error) if error.is_wait_timeout() => {
            printer.print(&Tried::busy(&attempt.key, error.busy()))?;
            Exit::Busy
        }
        Err(error) => return Err(error.into()),
    };
    super::close(&client).await;
    Ok(exit)
}

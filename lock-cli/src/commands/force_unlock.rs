//! `distlock force-unlock`.

use std::io::{self, BufRead, IsTerminal, Write};

use distlock::LockRecord;

use crate::arguments::{ForceUnlock, Global};
use crate::exit::{Exit, Failure};
use crate::output::{Forced, Lock, Printer, Report};
use crate::store;

pub(super) async fn execute(global: &Global, printer: &Printer, force: ForceUnlock) -> Result<Exit, Failure> {
    if !force.yes && !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "force-unlock takes a lock from a live holder, which may go on until its lease ends; there is no terminal to ask on, so give --yes if you mean it",
        ));
    }
    let client = store::connect(global).await?;
    let admin = client.admin()?;
    if !force.yes {
        let record = admin.inspect(&force.key).await?;
        let record = record.unwrap_or_else(|| LockRecord::new(force.key.clone()));
        if !confirmed(&Lock::from(record)).map_err(|error| Failure::system("can't ask", error))? {
            super::close(&client).await;
            return Err(Failure::new(Exit::Negative, "left as it is"));
        }
    }
    let victim = admin.force_unlock(&force.key).await?;
    super::close(&client).await;
    printer.print(&Forced::new(force.key, victim))?;
    Ok(Exit::Success)
}

const WHAT_IT_DOES: &str = "
This frees the lock for whoever comes next, with a higher token. Waiters keep their places. It does not stop
the holder, which goes on until it notices: at its next renewal, at the latest when its lease ends. Until
then two may work at once, unless what they work on compares tokens.
";

fn confirmed(lock: &Lock) -> io::Result<bool> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{}{WHAT_IT_DOES}Take the lock away? [y/N] ", lock.text())?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

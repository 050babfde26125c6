//! `distlock ls`.

use distlock::{LockKey, LockRecord};

use crate::arguments::{Global, Ls};
use crate::exit::{Exit, Failure};
use crate::output::{Locks, Printer};
use crate::store;

/// How many locks are asked for at a time.
const PAGE: usize = 500;

pub(super) async fn execute(global: &Global, printer: &Printer, ls: Ls) -> Result<Exit, Failure> {
    let prefix = match ls.prefix.as_deref() {
        None | Some("") => None,
        Some(prefix) => Some(LockKey::from_escaped(prefix)?),
    };
    let prefix = prefix.as_ref().map_or(&b""[..], LockKey::as_bytes);
    let client = store::connect(global).await?;
    let admin = client.admin()?;
    let mut records: Vec<LockRecord> = Vec::new();
    loop {
        let page = admin.list(prefix, records.last().map(|record| &record.key), PAGE).await?;
        let complete = page.len() < PAGE;
        records.extend(page);
        if complete {
            break;
        }
    }
    super::close(&client).await;
    printer.print(&Locks::from(records))?;
    Ok(Exit::Success)
}

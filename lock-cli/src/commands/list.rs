//! `distlock ls`.

use distlock::{Error, LockAdmin, LockKey, LockRecord};

use crate::arguments::{Global, Ls};
use crate::exit::{Exit, Failure};
use crate::output::{Locks, Printer};
use crate::store;

/// How many locks are asked for at a time.
const PAGE: usize = 500;

pub(super) async fn execute(global: &Global, printer: &Printer, ls: Ls) -> Result<Exit, Failure> {
    let prefix = read_prefix(ls.prefix.as_deref())?;
    let client = store::connect(global).await?;
    let records = all(client.admin()?, &prefix).await?;
    super::close(&client).await;
    printer.print(&Locks::from(records))?;
    Ok(Exit::Success)
}

/// The bytes that keys are to start with.
pub(super) fn read_prefix(prefix: Option<&str>) -> Result<Vec<u8>, Failure> {
    match prefix {
        None | Some("") => Ok(Vec::new()),
        Some(prefix) => Ok(LockKey::from_escaped(prefix)?.as_bytes().to_vec()),
    }
}

/// All locks whose keys start with `prefix`, in byte order of their keys.
pub(super) async fn all(admin: &dyn LockAdmin, prefix: &[u8]) -> Result<Vec<LockRecord>, Error> {
    let mut records: Vec<LockRecord> = Vec::new();
    loop {
        let page = admin.list(prefix, records.last().map(|record| &record.key), PAGE).await?;
        let complete = page.len() < PAGE;
        records.extend(page);
        if complete {
            return Ok(records);
        }
    }
}

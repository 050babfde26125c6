//! `distlock inspect`.

use distlock::LockRecord;

use crate::arguments::{Global, Inspect};
use crate::exit::{Exit, Failure};
use crate::output::{Lock, Printer};
use crate::store;

pub(super) async fn execute(global: &Global, printer: &Printer, inspect: Inspect) -> Result<Exit, Failure> {
    let client = store::connect(global).await?;
    let record = client.admin()?.inspect(&inspect.key).await?;
    super::close(&client).await;
    printer.print(&Lock::from(record.unwrap_or_else(|| LockRecord::new(inspect.key))))?;
    Ok(Exit::Success)
}

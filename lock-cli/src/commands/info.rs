//! `distlock info`.

use crate::arguments::Global;
use crate::exit::{Exit, Failure};
use crate::output::{Printer, Store};
use crate::store;

pub(super) async fn execute(global: &Global, printer: &Printer) -> Result<Exit, Failure> {
    let client = store::connect(global).await?;
    let health = client.probe().await?;
    let report = Store::new(store::shown_url(global)?, client.info(), health);
    super::close(&client).await;
    printer.print(&report)?;
    Ok(Exit::Success)
}

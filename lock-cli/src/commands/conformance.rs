//! `distlock conformance`.

use std::sync::Arc;

use async_trait::async_trait;
use distlock::{BackendInfo, LockBackend, LockClient};
use distlock_conformance::{RunOptions, Subject, case_ids, run};
use serde::Serialize;

use crate::arguments::{Conformance, Format, Global};
use crate::exit::{Exit, Failure};
use crate::message::explain_panics;
use crate::output::{Printer, Report};
use crate::store;

/// The suite starts this program again, with the same arguments, as further holders; in those
/// processes `run` does not return.
pub(super) fn execute(global: &Global, printer: &Printer, conformance: Conformance) -> Result<Exit, Failure> {
    let wanted = |id: &&str| conformance.filter.as_ref().is_none_or(|filter| id.contains(filter.as_str()));
    let cases: Vec<_> = case_ids().filter(wanted).collect();
    if cases.is_empty() {
        return Err(Failure::usage(
            "no case has a name that contains the filter; `distlock conformance --list` shows the names",
        ));
    }
    if conformance.list {
        return list(global, printer, cases);
    }
    let subject = Store::look_at(global)?;
    let mut options = RunOptions::default();
    options.filter = conformance.filter;
    explain_panics("a check of the suite failed");
    let report = run(subject, &options, |_| ());
    let exit = if report.is_success() { Exit::Success } else { Exit::Negative };
    match global.format {
        Format::Text | Format::Json => printer.print(&Outcomes(report))?,
        Format::Junit => printer.raw(report.render(distlock_conformance::Format::Junit).as_bytes())?,
    }
    Ok(exit)
}

fn list(global: &Global, printer: &Printer, names: Vec<&'static str>) -> Result<Exit, Failure> {
    if global.format == Format::Junit {
        return Err(Failure::usage("a list is no junit report; use --format text or json"));
    }
    printer.print(&Cases(names))?;
    Ok(Exit::Success)
}

/// What came of the cases; its JSON is the suite's, on one line.
#[derive(Serialize)]
#[serde(transparent)]
struct Outcomes(distlock_conformance::Report);

impl Report for Outcomes {
    fn text(&self) -> String {
        self.0.render(distlock_conformance::Format::Text)
    }
}

/// The names of cases.
#[derive(Serialize)]
struct Cases(Vec<&'static str>);

impl Report for Cases {
    fn text(&self) -> String {
        self.0.join("\n") + "\n"
    }
}

/// The store that the command line names.
struct Store {
    url: String,
    info: BackendInfo,
    /// Of a store that lives in this process, all that there is.
    only: Option<Arc<dyn LockBackend>>,
}

impl Store {
    fn look_at(global: &Global) -> Result<Self, Failure> {
        let url = store::url(global)?;
        let client = super::with_runtime(async { Ok(distlock::connect(&url).await?) })?;
        let info = client.info().clone();
        let only = (!info.supports.processes).then(|| backend(&client));
        Ok(Self { url, info, only })
    }
}

#[async_trait]
impl Subject for Store {
    fn info(&self) -> BackendInfo {
        self.info.clone()
    }

    async fn connect(&self, url: &str) -> distlock::Result<Arc<dyn LockBackend>> {
        match &self.only {
            Some(only) => Ok(Arc::clone(only)),
            None => Ok(backend(&distlock::connect(url).await?)),
        }
    }

    fn url(&self) -> String {
        self.url.clone()
    }
}

fn backend(client: &LockClient) -> Arc<dyn LockBackend> {
    Arc::clone(client.backend())
}

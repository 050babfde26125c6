//! Results on standard output, as text or as JSON. The JSON fields are listed in docs/cli.md; they
//! may gain company, but none changes its name or meaning.

mod changed;
mod checked;
mod compared;
mod diagnosis;
mod forced;
mod lock;
mod measured;
mod store;
mod table;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod tables;
mod tried;

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

pub(crate) use self::changed::changes;
pub(crate) use self::checked::Checked;
pub(crate) use self::compared::{Changed, Compared};
pub(crate) use self::diagnosis::Diagnosis;
pub(crate) use self::forced::Forced;
pub(crate) use self::lock::{Lock, Locks};
pub(crate) use self::measured::Measured;
pub(crate) use self::store::Store;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) use self::tables::Tables;
pub(crate) use self::tried::Tried;
use crate::arguments::Format;
use crate::exit::Failure;

/// A result that can be shown in both ways.
pub(crate) trait Report: Serialize {
    /// Lines for people, each with its line end.
    fn text(&self) -> String;
}

/// Prints results in the format asked for.
#[derive(Debug)]
pub(crate) struct Printer {
    format: Format,
}

impl Printer {
    pub(crate) const fn new(format: Format) -> Self {
        Self { format }
    }

    /// Prints a result.
    pub(crate) fn print(&self, report: &impl Report) -> Result<(), Failure> {
        self.follow(report).map(|_| ())
    }

    /// Prints one of many results. `false` if nobody reads on.
    pub(crate) fn follow(&self, report: &impl Report) -> Result<bool, Failure> {
        let text = match self.format {
            Format::Text => report.text(),
            Format::Json | Format::Junit => {
                let json = serde_json::to_string(report);
                json.map_err(|error| Failure::system("can't write the result as JSON", error))? + "\n"
            }
        };
        write(text.as_bytes())
    }

    /// Prints bytes as they are. That nobody reads on (`| head`) is no failure.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        write(bytes).map(|_| ())
    }
}

/// Writes to standard output. `false` if nobody reads that.
fn write(bytes: &[u8]) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::system("can't write the result to standard output", error)),
    }
}

/// Whole milliseconds, for JSON.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

//! Opening the database: is it ours, is it empty, and under which epoch was it opened last.

use distlock_core::{Error, ErrorKind, Gathering, Result};
use sqlx::Row;

use super::checkpoints::Checkpoints;
use super::config::SqliteConfig;
use super::connection::{Connection, Turn, Use};
use super::error::classify;
use super::file::DatabaseFile;
use super::machine::Machine;
use super::schema;
use super::store::Store;

/// Opens the database, makes it one of ours if it is empty, and notes the epoch.
///
/// Dropping the future rolls back what is half done, since its connections go with it.
pub(super) async fn open(config: &SqliteConfig) -> Result<Store> {
    config.check()?;
    let machine = config.machine.clone().map_or_else(Machine::this, Ok)?;
    let file = DatabaseFile::new(&config.path)?;
    file.check().await?;
    let connection =
        |use_for| Connection::unopened(use_for, file.clone(), machine.clone(), config.busy_timeout);
    let (writer, reader) = (connection(Use::Writing), connection(Use::Reading));
    let checkpoints = Checkpoints::new(connection(Use::Checkpoints));
    let journal_mode = prepare(&mut writer.turn().await?, &file, &machine).await?;
    // Opens it, so that what is in its way shows now.
    drop(reader.turn().await?);
    let (grants, releases) = (Gathering::default(), Gathering::default());
    let store = Store { file, machine, writer, reader, checkpoints, grants, releases, journal_mode };
    store.file.remember(store.has_write_ahead_log());
    Ok(store)
}

async fn prepare(turn: &mut Turn<'_>, file: &DatabaseFile, machine: &Machine) -> Result<String> {
    // Before anything is written: a database of somebody else's must stay as it is.
    let found = Header::read(turn, file).await?;
    found.refuse_foreign(file)?;
    let journal_mode = use_write_ahead_log(turn, file).await?;
    if !found.is_complete() {
        create(turn, file, machine).await?;
    }
    enter_epoch(turn, machine, &journal_mode).await?;
    Ok(journal_mode)
}

/// Turns the write-ahead log on, and says what the journal mode is then: a file system without
/// shared memory can't have it.
async fn use_write_ahead_log(turn: &mut Turn<'_>, file: &DatabaseFile) -> Result<String> {
    let answer = turn.run(|_| sqlx::query("PRAGMA journal_mode = WAL")).await?;
    let mode = answer.rows.first().map(|row| row.try_get::<String, _>(0)).transpose();
    let mode = mode.map_err(|error| classify(error, file.path()))?.unwrap_or_default();
    if mode == "wal" {
        turn.run(|_| sqlx::query("PRAGMA synchronous = NORMAL")).await?;
    }
    Ok(mode)
}

async fn create(turn: &mut Turn<'_>, file: &DatabaseFile, machine: &Machine) -> Result<()> {
    turn.run(|_| sqlx::query("BEGIN IMMEDIATE")).await?;
    // Another program may have been faster, and newer.
    let found = Header::read(turn, file).await?;
    found.refuse_foreign(file)?;
    for statement in schema::CREATE {
        turn.run(|_| sqlx::query(statement)).await?;
    }
    turn.run(|_| sqlx::query(schema::FIRST_BOUNDS).bind(machine.epoch())).await?;
    turn.run(|_| sqlx::query("COMMIT")).await?;
    Ok(())
}

/// Under another epoch than last time the machine may have lost power, and with it the last tokens;
/// none of them was above the reserve, so all later ones have to be.
async fn enter_epoch(turn: &mut Turn<'_>, machine: &Machine, journal_mode: &str) -> Result<()> {
    const SAME: &str = "SELECT 1 FROM distlock_meta WHERE id = 1 AND epoch = ?1";
    const ENTER: &str = "UPDATE distlock_meta SET token_floor = max(token_floor, token_reserve), epoch = ?1
 WHERE id = 1 AND epoch <> ?1";
    const FORGET_WAITERS: &str = "DELETE FROM distlock_claims WHERE token IS NULL AND epoch <> ?1";
    if !turn.run(|_| sqlx::query(SAME).bind(machine.epoch())).await?.rows.is_empty() {
        return Ok(());
    }
    // Only a damaged database lacks it here.
    turn.run(|_| sqlx::query(schema::FIRST_BOUNDS).bind(machine.epoch())).await?;
    turn.run(|_| sqlx::query("PRAGMA synchronous = FULL")).await?;
    turn.run(|_| sqlx::query(FORGET_WAITERS).bind(machine.epoch())).await?;
    turn.run(|_| sqlx::query(ENTER).bind(machine.epoch())).await?;
    if journal_mode == "wal" {
        turn.run(|_| sqlx::query("PRAGMA synchronous = NORMAL")).await?;
    }
    Ok(())
}

/// What a database file says it is.
#[derive(Debug)]
struct Header {
    application: i64,
    version: i64,
    /// Tables, indexes and triggers in it, and how many of ours are among them.
    things: i64,
    ours: i64,
}

impl Header {
    async fn read(turn: &mut Turn<'_>, file: &DatabaseFile) -> Result<Self> {
        let answer = turn.run(|_| sqlx::query(schema::HEADER)).await?;
        let number = |at: usize| match answer.rows.first() {
            Some(row) => row.try_get::<i64, _>(at).map_err(|error| classify(error, file.path())),
            None => Ok(0),
        };
        Ok(Self { application: number(0)?, version: number(1)?, things: number(2)?, ours: number(3)? })
    }

    fn refuse_foreign(&self, file: &DatabaseFile) -> Result<()> {
        let path = file.path().display();
        let ours = self.application == schema::APPLICATION_ID;
        let empty = self.application == 0 && self.things == 0;
        let message = if !ours && !empty {
            format!(
                "{path} is a database of another program; name a file of its own for the locks, it is created when missing"
            )
        } else if ours && self.version > schema::VERSION {
            format!(
                "{path} was made by a newer distlock (layout {}, this one knows {}); upgrade this program",
                self.version,
                schema::VERSION
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Misconfigured, message))
    }

    const fn is_complete(&self) -> bool {
        self.ours == schema::PARTS
    }
}

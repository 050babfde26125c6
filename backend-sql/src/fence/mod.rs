//! Data in a database that refuses writes from holders that came too late.

mod column;
mod dialect;
#[cfg(feature = "mysql")]
mod mysql;
mod names;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod table;

pub use column::TokenColumn;
pub use table::FenceTable;

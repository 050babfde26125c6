#![doc = include_str!("../README.md")]

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod fence;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod hex;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod outlasting;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;
#[cfg(feature = "sqlite")]
pub mod sqlite;

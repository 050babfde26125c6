#![doc = include_str!("../README.md")]

#[cfg(feature = "sqlite")]
pub mod sqlite;

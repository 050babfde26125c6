//! Servers, asked by their own command-line clients.

use std::io;
use std::process::Command;

use crate::Server;

/// Words to a Redis server.
pub(super) fn redis(server: &Server, words: &str) -> io::Result<String> {
    let address = server.address();
    let mut command = Command::new("redis-cli");
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "-e"]);
    said(command.args(words.split(' ')))
}

/// A statement to a PostgreSQL server.
pub(super) fn psql(server: &Server, statement: &str) -> io::Result<String> {
    let url = format!("postgres://postgres@{}/postgres", server.address());
    said(Command::new("psql").args(["-qAtXw", "-v", "ON_ERROR_STOP=1", "-c", statement, &url]))
}

/// Statements to a MariaDB server.
pub(super) fn mariadb(server: &Server, statements: &str) -> io::Result<String> {
    let address = server.address();
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "-uroot", "--batch", "--skip-column-names"]);
    command.args(["-h", &address.ip().to_string(), "-P", &address.port().to_string()]);
    said(command.args(["-e", statements]))
}

fn said(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

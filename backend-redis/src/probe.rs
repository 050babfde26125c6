//! How the server is doing.

use distlock_core::{Health, Result};
use redis::Value;

use crate::store::Store;

/// Asks the server how it is.
pub(crate) async fn probe(store: &Store) -> Result<Health> {
    let asked = store.clock.now();
    store.command(&redis::cmd("PING")).await?;
    let round_trip = store.clock.now().since(asked);
    let mut command = redis::cmd("INFO");
    command.arg("server");
    // Whoever may not ask for it can still use locks.
    let version = store.command(&command).await.ok().and_then(|info| version(&info));
    Ok(Health::new(version, round_trip))
}

fn version(info: &Value) -> Option<String> {
    let info = match info {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        _ => return None,
    };
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    // Valkey tells an old version of Redis beside its own, for old clients.
    field("valkey_version")
        .map(|version| format!("Valkey {version}"))
        .or_else(|| field("redis_version").map(|version| format!("Redis {version}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_own_name() {
        let info = |text: &str| version(&Value::BulkString(text.as_bytes().to_vec()));
        assert_eq!(info("# Server\r\nredis_version:7.0.15\r\n").as_deref(), Some("Redis 7.0.15"));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
        assert_eq!(info(valkey).as_deref(), Some("Valkey 8.1.1"));
        assert_eq!(info("role:master"), None);
    }
}

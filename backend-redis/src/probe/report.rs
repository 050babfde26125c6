//! What a server reports of itself.

use std::collections::HashMap;

use redis::Value;

/// The answer of INFO, by field.
#[derive(Debug, Default)]
pub(crate) struct Report(HashMap<String, String>);

impl Report {
    /// Reads an answer; `None` if it is no text.
    pub(crate) fn read(answer: &Value) -> Option<Self> {
        let text = match answer {
            Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::VerbatimString { text, .. } | Value::SimpleString(text) => text.clone(),
            _ => return None,
        };
        let fields = text.lines().filter_map(|line| line.trim().split_once(':'));
        Some(Self(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    /// A field's value.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether a field is there and has this value.
    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.field(name) == Some(value)
    }

    /// The server's name and version.
    pub(super) fn version(&self) -> Option<String> {
        // Valkey tells an old version of Redis beside its own, for old clients.
        self.field("valkey_version")
            .map(|version| format!("Valkey {version}"))
            .or_else(|| self.field("redis_version").map(|version| format!("Redis {version}")))
    }

    /// By which rule the server throws keys away when its memory is full, if it does.
    pub(crate) fn evicts(&self) -> Option<&str> {
        self.field("maxmemory_policy").filter(|policy| *policy != "noeviction")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_own_name() {
        let version =
            |text: &str| Report::read(&Value::BulkString(text.as_bytes().to_vec())).unwrap().version();
        assert_eq!(version("# Server\r\nredis_version:7.0.15\r\n").as_deref(), Some("Redis 7.0.15"));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
        assert_eq!(version(valkey).as_deref(), Some("Valkey 8.1.1"));
        assert_eq!(version("role:master"), None);
    }

    #[test]
    fn only_another_policy_than_none_evicts() {
        let evicts = |text: &str| {
            Report::read(&Value::BulkString(text.as_bytes().to_vec())).unwrap().evicts().map(str::to_owned)
        };
        assert_eq!(evicts("maxmemory_policy:noeviction\r\n"), None);
        assert_eq!(evicts("maxmemory_policy:volatile-lru\r\n").as_deref(), Some("volatile-lru"));
        assert_eq!(evicts("role:master"), None, "what is not told is not held against it");
    }
}

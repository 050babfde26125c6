//! How the tables are named in statements.

use super::config::ServerConfig;

/// How the tables are named in statements.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    /// The table with the locks, quoted.
    pub(crate) locks: String,
    /// The table with holders of shared modes, quoted.
    pub(crate) claims: String,
    /// The table with the layout's version, quoted.
    pub(crate) layout: String,
    /// The table with the locks, as it is.
    pub(crate) name: String,
    /// Whether values are to be written into the texts of statements.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "PostgreSQL needs it"))]
    pub(crate) is_inline: bool,
}

impl Tables {
    /// The names of a checked configuration, each part between two `quote`s.
    pub(crate) fn new(config: &ServerConfig, quote: char) -> Self {
        let quoted = |suffix: &str| {
            let schema = config.schema.as_ref().map(|schema| format!("{quote}{schema}{quote}."));
            format!("{}{quote}{}{suffix}{quote}", schema.unwrap_or_default(), config.table)
        };
        Self {
            locks: quoted(""),
            claims: quoted("_claims"),
            layout: quoted("_layout"),
            name: config.table.clone(),
            is_inline: config.pooled,
        }
    }

    /// Where releases are announced, on servers that can.
    pub(crate) fn channel(&self) -> String {
        // Without the schema, which not all programs need to name. Too many hear it then, none too few.
        format!("distlock_{}", self.name)
    }
}

//! Names of tables and columns, fit to stand in statements.

use distlock_core::{Error, ErrorKind, Result};

/// The longest name that every kind of database takes.
const LONGEST: usize = 63;

/// A table's name between two `quote`s, with its schema if that stands in front of it.
pub(super) fn table(name: &str, quote: char) -> Result<String> {
    let parts: Vec<_> = name.split('.').map(|part| quoted(part, quote)).collect::<Result<_>>()?;
    if parts.len() > 2 {
        return invalid(name);
    }
    Ok(parts.join("."))
}

/// A column's name between two `quote`s.
pub(super) fn quoted(name: &str, quote: char) -> Result<String> {
    if name.is_empty() || name.len() > LONGEST || name.contains([quote, '\0']) {
        return invalid(name);
    }
    Ok(format!("{quote}{name}{quote}"))
}

fn invalid<T>(name: &str) -> Result<T> {
    Err(Error::new(
        ErrorKind::InvalidOptions,
        format!(
            "`{}` can't be the name of a table or column; it takes 1 to {LONGEST} bytes and no quotes, and a schema with one dot in front of a table",
            name.escape_debug()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_what_would_end_the_quotes_is_refused() {
        assert_eq!(table("accounts", '"').unwrap(), "\"accounts\"");
        assert_eq!(table("Bank.accounts of 7", '`').unwrap(), "`Bank`.`accounts of 7`");
        for name in ["", "a.b.c", "a.", ".a", "a\"; DROP TABLE b", "a\0", &"a".repeat(64)] {
            assert_eq!(table(name, '"').unwrap_err().kind(), ErrorKind::InvalidOptions, "{name}");
        }
        assert!(quoted("a`b", '`').is_err());
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_name_ends_the_quotes_that_it_stands_in(
            name in prop_oneof![any::<String>(), "[a.`\"; ]{1,9}"],
            quote in prop::sample::select(vec!['"', '`']),
        ) {
            if let Ok(quoted) = table(&name, quote) {
                let parts: Vec<&str> = quoted.split(quote).collect();
                // Before, name and after; a schema's name, the dot and the table's within.
                prop_assert!(parts.len() == 3 || (parts.len() == 5 && parts[2] == "."));
                prop_assert!(parts[0].is_empty() && parts[parts.len() - 1].is_empty());
                prop_assert_eq!(quoted.replace(quote, ""), name);
            }
        }
    }
}

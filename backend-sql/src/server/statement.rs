//! Statements, and what they give.

use std::sync::Arc;

use distlock_core::{Effect, Error, ErrorKind, Instant, LockKey, OwnerId, Result};

use crate::hex::push_hex;

/// A value to bind.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(i64),
    Key(LockKey),
    Owner(OwnerId),
    Bytes(Vec<u8>),
    Text(String),
}

impl Value {
    /// The value as PostgreSQL reads it in a text.
    fn literal(&self) -> String {
        let hex = |bytes: &[u8]| {
            let mut digits = String::with_capacity(2 * bytes.len());
            push_hex(&mut digits, bytes);
            digits
        };
        let bytea = |bytes: &[u8]| format!("decode('{}', 'hex')", hex(bytes));
        match self {
            Self::Int(value) => format!("CAST({value} AS bigint)"),
            Self::Key(key) => bytea(key.as_bytes()),
            Self::Owner(owner) => bytea(owner.as_bytes()),
            Self::Bytes(bytes) => bytea(bytes),
            Self::Text(text) => format!("convert_from(decode('{}', 'hex'), 'UTF8')", hex(text.as_bytes())),
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&LockKey> for Value {
    fn from(key: &LockKey) -> Self {
        Self::Key(key.clone())
    }
}

impl From<OwnerId> for Value {
    fn from(owner: OwnerId) -> Self {
        Self::Owner(owner)
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Self::Bytes(value.to_vec())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

/// A statement's text, made once: values stand as `:1`, `:2` and so on in what it is made of.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    sql: Arc<str>,
    /// Which value each placeholder takes, counted from 0; `None` if placeholders name their value.
    order: Option<Arc<[usize]>>,
    /// Whether values are written into the text.
    is_inline: bool,
}

impl Template {
    /// For a server whose placeholders are `$1`, `$2` and so on.
    #[cfg(any(test, feature = "postgres"))]
    pub(crate) fn numbered(text: &str) -> Self {
        Self { sql: rewrite(text, |number| format!("${}", number + 1)).into(), order: None, is_inline: false }
    }

    /// For a PostgreSQL server behind a pooler that loses prepared statements: values are written into the text,
    /// all but numbers as hexadecimal digits.
    #[cfg(any(test, feature = "postgres"))]
    pub(crate) fn inline(text: &str) -> Self {
        Self { sql: text.into(), order: None, is_inline: true }
    }

    /// For a server whose placeholders are all `?`, each with a value of its own.
    #[cfg(any(test, feature = "mysql"))]
    pub(crate) fn in_order(text: &str) -> Self {
        let mut order = Vec::new();
        let sql = rewrite(text, |number| {
            order.push(number);
            "?".to_owned()
        });
        Self { sql: sql.into(), order: Some(order.into()), is_inline: false }
    }

    /// The text as the server gets it.
    pub(crate) fn text(&self) -> &str {
        &self.sql
    }

    /// The statement with these values.
    pub(crate) fn with<const N: usize>(&self, values: [Value; N]) -> Statement {
        if self.is_inline {
            let literal = |at: usize| values.get(at).map(Value::literal).unwrap_or_default();
            let sql = rewrite(&self.sql, literal).into();
            return Statement { sql, given: Arc::default(), order: None, is_inline: true };
        }
        let sql = Arc::clone(&self.sql);
        Statement { sql, given: values.into(), order: self.order.clone(), is_inline: false }
    }
}

/// Puts what `placeholder` says in place of each `:1` to `:9`.
fn rewrite(text: &str, mut placeholder: impl FnMut(usize) -> String) -> String {
    let mut sql = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(':') {
        sql.push_str(&rest[..at]);
        match rest.as_bytes().get(at + 1) {
            Some(digit @ b'1'..=b'9') => {
                sql.push_str(&placeholder(usize::from(digit - b'1')));
                rest = &rest[at + 2..];
            }
            _ => {
                sql.push(':');
                rest = &rest[at + 1..];
            }
        }
    }
    sql.push_str(rest);
    sql
}

/// A statement with its values. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) sql: Arc<str>,
    given: Arc<[Value]>,
    order: Option<Arc<[usize]>>,
    /// Whether it goes through a pooler that may change servers between statements.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "PostgreSQL has such poolers"))]
    pub(crate) is_inline: bool,
}

impl Statement {
    /// One value for each placeholder, or for each number that placeholders have.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Value> {
        let count = self.order.as_ref().map_or(self.given.len(), |order| order.len());
        (0..count).map(|at| &self.given[self.order.as_ref().map_or(at, |order| order[at])])
    }
}

/// One column of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Bytes(Vec<u8>),
    Text(String),
}

/// What a statement gave.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Read before the statement left.
    pub(crate) sent: Instant,
    pub(crate) rows: Vec<Row>,
    /// How many rows it changed or returned.
    pub(crate) matched: u64,
    /// What the statement says beside that: the token of a grant, 0 if there is none.
    pub(crate) number: i64,
    /// Whether it was sent twice, since the connection broke: the first may have acted.
    pub(crate) was_repeated: bool,
}

impl Answer {
    /// The error of what came after this answer, for the call as a whole.
    pub(crate) fn doubt(&self, error: Error) -> Error {
        if self.was_repeated { error.with_effect(Effect::Unknown) } else { error }
    }
}

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Row(pub(crate) Vec<Cell>);

impl Row {
    pub(crate) fn int(&self, at: usize) -> Result<i64> {
        self.maybe_int(at)?.map_or_else(|| unreadable("a number is missing"), Ok)
    }

    pub(crate) fn maybe_int(&self, at: usize) -> Result<Option<i64>> {
        match self.0.get(at) {
            Some(Cell::Int(value)) => Ok(Some(*value)),
            Some(Cell::Null) => Ok(None),
            _ => unreadable("a value is no number"),
        }
    }

    pub(crate) fn maybe_bytes(&self, at: usize) -> Result<Option<&[u8]>> {
        match self.0.get(at) {
            Some(Cell::Bytes(value)) => Ok(Some(value)),
            Some(Cell::Text(value)) => Ok(Some(value.as_bytes())),
            Some(Cell::Null) => Ok(None),
            _ => unreadable("a value has the wrong type"),
        }
    }

    pub(crate) fn text(&self, at: usize) -> Result<&str> {
        match self.0.get(at) {
            Some(Cell::Text(value)) => Ok(value),
            Some(Cell::Bytes(value)) => {
                std::str::from_utf8(value).or_else(|_| unreadable("a value is no text"))
            }
            Some(Cell::Null) => Ok(""),
            _ => unreadable("a value is no text"),
        }
    }
}

fn unreadable<T>(what: &str) -> Result<T> {
    Err(Error::new(
        ErrorKind::Corrupt,
        format!(
            "the table is not as distlock made it: {what}; see who changed it, or name another one by `table`"
        ),
    )
    .with_effect(Effect::Unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(statement: &Statement) -> Vec<i64> {
        let number = |value: &Value| match value {
            Value::Int(number) => *number,
            other => panic!("{other:?}"),
        };
        statement.values().map(number).collect()
    }

    #[test]
    fn placeholders_get_their_values() {
        let text = "SELECT :2, x::text, ':', :1, :2";
        let numbered = Template::numbered(text).with([1.into(), 2.into()]);
        assert_eq!(&*numbered.sql, "SELECT $2, x::text, ':', $1, $2");
        assert_eq!(numbers(&numbered), [1, 2]);
        let values = [(-1).into(), Value::Text("a'b".to_owned())];
        let inline = Template::inline(":1, :2, x::text").with(values);
        let text_of_2 = "convert_from(decode('612762', 'hex'), 'UTF8')";
        assert_eq!(&*inline.sql, format!("CAST(-1 AS bigint), {text_of_2}, x::text"));
        assert_eq!(inline.values().count(), 0);
        let in_order = Template::in_order(text).with([1.into(), 2.into()]);
        assert_eq!(&*in_order.sql, "SELECT ?, x::text, ':', ?, ?");
        assert_eq!(numbers(&in_order), [2, 1, 2]);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    /// What PostgreSQL would decode.
    fn decoded(literal: &str) -> Vec<u8> {
        let digits = literal.split('\'').nth(1).unwrap();
        let pairs = digits.as_bytes().chunks(2);
        pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    proptest! {
        #[test]
        fn no_value_gets_out_of_the_text_that_it_is_written_into(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            text in prop_oneof![any::<String>(), "[':;$1-9 \\\\-]{0,12}"],
            number in any::<i64>(),
        ) {
            let values = [Value::from(bytes.as_slice()), Value::from(text.as_str()), Value::from(number)];
            let [first, second, third] = [0, 1, 2].map(|at| values[at].literal());
            let statement = Template::inline("SELECT :1, :2, :3").with(values);
            prop_assert_eq!(&*statement.sql, format!("SELECT {first}, {second}, {third}"));
            prop_assert_eq!(decoded(&first), bytes);
            prop_assert_eq!(decoded(&second), text.into_bytes());
            prop_assert_eq!(third, format!("CAST({number} AS bigint)"));
            prop_assert!([first, second].iter().all(|literal| literal.matches('\'').count() % 2 == 0));
        }
    }
}

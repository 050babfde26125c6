//! Reading what the scripts answer.

use std::time::Duration;

use distlock_core::{Busy, Effect, Error, FencingToken, Holder, Metadata, OwnerId, Result};
use redis::Value;

use crate::error::{damaged, unreadable};

/// The answer of a script that grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Granted {
    /// The lock is held by the one who asked, with this token.
    Token(FencingToken),
    /// Somebody else holds it; the token is the last that was granted.
    Busy(Busy, u64),
}

/// Reads the answer of a script that grants.
pub(crate) fn granted(value: &Value) -> Result<Granted> {
    granted_parts(parts(value)?)
}

/// The same of the parts of an answer.
pub(crate) fn granted_parts(answer: &[Value]) -> Result<Granted> {
    match answer {
        [Value::Int(1), token] => Ok(Granted::Token(token_of(token)?)),
        [Value::Int(0), token, owner, left, metadata, turn] => {
            let holder = holder(token, owner, left, metadata)?;
            let token = holder.token.get();
            Ok(Granted::Busy(Busy::by(holder, left_of(turn)?), token))
        }
        [Value::Int(2), token, turn] => {
            let mut busy = Busy::unknown();
            busy.free_in = Some(left_of(turn)?);
            Ok(Granted::Busy(busy, token_of(token).map_or(0, FencingToken::get)))
        }
        [Value::Int(3)] => Ok(Granted::Busy(Busy::unknown(), 0)),
        [Value::Int(-1)] => Err(damaged()),
        _ => unreadable(),
    }
}

/// Reads what a script says about who holds a lock.
pub(crate) fn holder(token: &Value, owner: &Value, left: &Value, metadata: &Value) -> Result<Holder> {
    let Ok(owner) = text(owner)?.parse::<OwnerId>() else { return Err(damaged_but_used()) };
    let holder = Holder::new(owner, token_of(token)?).expires_in(left_of(left)?);
    Ok(holder.metadata(Metadata::decode(&text(metadata)?)))
}

/// Reads an answer that is one number; below zero, the record is damaged.
pub(crate) fn number(value: &Value) -> Result<i64> {
    match parts(value)? {
        [Value::Int(number)] if *number < 0 => Err(damaged()),
        [Value::Int(number)] => Ok(*number),
        _ => unreadable(),
    }
}

/// Reads a server's clock: in microseconds since 1970.
pub(crate) fn time_of(answer: &Value) -> Result<u64> {
    let [seconds, micros] = parts(answer)? else { return unreadable() };
    match (text(seconds)?.parse::<u64>(), text(micros)?.parse::<u64>()) {
        (Ok(seconds), Ok(micros)) => Ok(seconds.saturating_mul(1_000_000).saturating_add(micros)),
        _ => unreadable(),
    }
}

/// Reads an answer that is a list.
pub(crate) fn parts(value: &Value) -> Result<&[Value]> {
    match value {
        Value::Array(parts) => Ok(parts),
        _ => unreadable(),
    }
}

/// Reads a token.
pub(crate) fn token_of(value: &Value) -> Result<FencingToken> {
    text(value)?.parse().map_err(|_| damaged_but_used())
}

/// The error for a record whose damage the script did not see: it may have left a mark there, or a place.
fn damaged_but_used() -> Error {
    damaged().with_effect(Effect::Unknown)
}

/// Rounded up, since a waiter that comes early comes for nothing.
pub(crate) fn left_of(value: &Value) -> Result<Duration> {
    match value {
        Value::Int(micros) => {
            Ok(Duration::from_micros(u64::try_from(*micros).unwrap_or(0).saturating_add(1)))
        }
        _ => unreadable(),
    }
}

fn text(value: &Value) -> Result<String> {
    match value {
        Value::BulkString(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Ok(text.clone()),
        _ => unreadable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use distlock_core::ErrorKind;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn answers_of_scripts_are_read_and_others_refused() {
        let grant = Value::Array(vec![Value::Int(1), bulk("1780000000000000")]);
        assert_eq!(
            granted(&grant).unwrap(),
            Granted::Token(FencingToken::new(1_780_000_000_000_000).unwrap())
        );
        let owner = OwnerId::random();
        let (name, left, turn) = (bulk(&owner.to_string()), Value::Int(999), Value::Int(4999));
        let held = vec![Value::Int(0), bulk("7"), name, left, bulk("pid=1"), turn];
        let Granted::Busy(busy, 7) = granted(&Value::Array(held)).unwrap() else { panic!() };
        assert_eq!(busy.free_in, Some(Duration::from_millis(5)));
        let holder = busy.holder.unwrap();
        assert_eq!((holder.owner, holder.expires_in), (owner, Some(Duration::from_millis(1))));
        for bad in [Value::Nil, Value::Array(vec![Value::Int(-1)]), Value::Array(vec![])] {
            assert_eq!(granted(&bad).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    /// What a server, or something in front of it, may answer.
    fn answer() -> impl Strategy<Value = Value> {
        let bytes = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "[0-9a-f]{32}".prop_map(String::into_bytes),
            any::<u64>().prop_map(|number| number.to_string().into_bytes()),
        ];
        let leaf = prop_oneof![
            Just(Value::Nil),
            Just(Value::Okay),
            any::<i64>().prop_map(Value::Int),
            (-1_i64..5).prop_map(Value::Int),
            bytes.prop_map(Value::BulkString),
            any::<String>().prop_map(Value::SimpleString),
            any::<bool>().prop_map(Value::Boolean),
            any::<f64>().prop_map(Value::Double),
        ];
        leaf.prop_recursive(2, 16, 6, |inner| prop::collection::vec(inner, 0..7).prop_map(Value::Array))
    }

    proptest! {
        #[test]
        fn no_answer_is_more_than_an_error(answer in answer(), parts in prop::collection::vec(answer(), 0..7)) {
            for answer in [answer, Value::Array(parts)] {
                let (_, _) = (granted(&answer), number(&answer));
                let (_, _, _) = (time_of(&answer), token_of(&answer), left_of(&answer));
                let _ = holder(&answer, &answer, &answer, &answer);
            }
        }

        #[test]
        fn what_a_script_says_of_a_holder_is_what_is_read(
            token in 1_u64..=FencingToken::MAX.get(),
            owner in any::<[u8; 16]>(),
            left in any::<i64>(),
            labels in any::<String>(),
        ) {
            let owner = OwnerId::from_bytes(&owner).unwrap();
            let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
            let read = holder(&text(&token.to_string()), &text(&owner.to_string()), &Value::Int(left), &text(&labels));
            let read = read.unwrap();
            prop_assert_eq!((read.owner, read.token.get()), (owner, token));
            let left = Duration::from_micros(u64::try_from(left).unwrap_or(0));
            prop_assert!(read.expires_in.unwrap() > left, "a waiter that comes early comes for nothing");
            prop_assert_eq!(read.metadata.encode(), labels);
        }
    }
}

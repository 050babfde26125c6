//! Where tokens begin.

use distlock_core::{Effect, Error, ErrorKind, FencingToken, Result};

use crate::generation::Generation;
use crate::session::{Failure, Node};

/// So much room is left above a floor for the tokens that follow.
const ROOM: i64 = 1 << 48;

/// What tokens are raised by, from which transaction on: a line `FROM BY` for each time that somebody
/// raised the floor. A token is the number of the transaction that made the place, and what it is
/// raised by; both never fall.
///
/// The last line has `-` for the transaction that wrote it, whose number nobody knew before. So it is the
/// transactions alone that decide, and everybody finds the same token for a place, whenever he looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Floor(Vec<(i64, i64)>);

impl Floor {
    /// Reads the floor's node.
    pub(crate) fn read(node: Option<&Node>) -> Self {
        node.map(|node| Self::of(&node.data, node.mzxid)).unwrap_or_default()
    }

    fn of(data: &[u8], mzxid: i64) -> Self {
        let text = std::str::from_utf8(data).unwrap_or_default();
        let step = |line: &str| {
            let (from, by) = line.split_once(' ')?;
            let from = if from == "-" { mzxid } else { from.parse().ok()? };
            Some((from, by.parse().ok()?))
        };
        Self(text.lines().filter_map(step).collect())
    }

    /// The token of a place that was made by this transaction.
    pub(crate) fn token(&self, czxid: i64) -> Option<FencingToken> {
        let raised = czxid.checked_add(self.raised_by(czxid))?;
        u64::try_from(raised).ok().and_then(FencingToken::new)
    }

    fn raised_by(&self, czxid: i64) -> i64 {
        self.0.iter().filter(|(from, _)| *from <= czxid).map(|(_, by)| *by).fold(0, i64::max)
    }

    fn encode(&self) -> String {
        self.0.iter().map(|(from, by)| format!("{from} {by}\n")).collect()
    }

    /// The floor raised so that transactions after `now` give higher tokens, if they don't already.
    fn raised(&self, floor: i64, now: i64) -> Option<String> {
        let by = floor - now;
        (by > self.raised_by(now)).then(|| format!("{}- {by}\n", self.encode()))
    }
}

/// Makes every later grant carry a token above `floor`.
pub(crate) async fn raise(generation: &Generation, floor: FencingToken) -> Result<()> {
    if floor.get_i64() > i64::MAX - ROOM {
        let message =
            format!("a token floor of {floor} leaves no room for tokens above it; give a lower one");
        return Err(Error::new(ErrorKind::InvalidOptions, message).with_effect(Effect::None));
    }
    let path = generation.names.token_floor();
    loop {
        let node = match generation.session.read(&path).await {
            Err(Failure::NoNode) => {
                generation.session.create_folder(&path).await?;
                continue;
            }
            node => node?,
        };
        // A write tells what the number of the present transaction is.
        let floor_now = Floor::read(Some(&node));
        let text = floor_now.encode();
        let (written, _) = match generation.session.write(&path, text.as_bytes(), node.version).await {
            Err(Failure::OtherVersion) => continue,
            written => written?,
        };
        let Some(raised) = floor_now.raised(floor.get_i64(), written.mzxid) else {
            return Ok(());
        };
        match generation.session.write(&path, raised.as_bytes(), written.version).await {
            Err(Failure::OtherVersion | Failure::NoNode) => {}
            written => return Ok(written.map(drop)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(floor: &Floor, czxid: i64) -> u64 {
        floor.token(czxid).unwrap().get()
    }

    #[test]
    fn tokens_are_transactions_until_somebody_raises_them() {
        let floor = Floor::default();
        assert_eq!(token(&floor, 77), 77);
        assert_eq!(floor.raised(50, 77), None, "they are above it anyway");
        let raised = Floor::of(floor.raised(1000, 77).unwrap().as_bytes(), 79);
        assert_eq!([76, 78, 80].map(|czxid| token(&raised, czxid)), [76, 78, 1003], "from the writing on");
        assert_eq!(Floor::of(raised.encode().as_bytes(), 90), raised, "written once more it is the same");
        assert_eq!(raised.raised(900, 80), None);
        let higher = Floor::of(raised.raised(5000, 90).unwrap().as_bytes(), 91);
        assert_eq!([76, 80, 92].map(|czxid| token(&higher, czxid)), [76, 1003, 5002]);
    }

    #[test]
    fn a_damaged_line_hides_no_other() {
        let floor = Floor::of(b"x\n10 500\nrubbish line\n", 0);
        assert_eq!(token(&floor, 11), 511);
        assert_eq!(floor.token(-1), None);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_data_make_the_reader_panic_or_tokens_fall(
            lines in prop::collection::vec(prop_oneof!["(-|-?[0-9]{1,20}) -?[0-9]{1,20}", any::<String>()], 0..6),
            written in any::<i64>(),
            one in any::<i64>(),
            two in any::<i64>(),
        ) {
            let floor = Floor::of(lines.join("\n").as_bytes(), written);
            let (early, late) = (one.min(two), one.max(two));
            if let (Some(early), Some(late), true) = (floor.token(early), floor.token(late), one != two) {
                prop_assert!(early < late);
            }
        }
    }
}

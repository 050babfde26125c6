//! A script's run that is written once and sent to several servers.

use redis::{Arg, Cmd};

use crate::script::{By, Script};

/// A script's run that is written once and sent to several servers.
pub(crate) struct Prepared {
    script: &'static Script,
    hashed: Cmd,
}

impl Prepared {
    pub(crate) fn new(script: &'static Script, keys: &[Vec<u8>], arguments: &[&[u8]]) -> Self {
        Self { script, hashed: script.invoke(By::Hash, keys, arguments) }
    }

    /// The command that names the script by its hash.
    pub(crate) const fn by_hash(&self) -> &Cmd {
        &self.hashed
    }

    /// The same for a server that has not seen the script.
    pub(crate) fn by_text(&self) -> Cmd {
        self.script.by_text(self.hashed.args_iter().filter_map(|argument| match argument {
            Arg::Simple(bytes) => Some(bytes),
            _ => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::CONFIRM;

    #[test]
    fn the_text_goes_with_the_same_keys_and_arguments() {
        let (keys, arguments) = ([b"lock:a".to_vec()], [b"me".as_slice(), b"7"]);
        let prepared = Prepared::new(&CONFIRM, &keys, &arguments);
        let text = CONFIRM.invoke(By::Text, &keys, &arguments);
        assert_eq!(prepared.by_text().get_packed_command(), text.get_packed_command());
        let hashed = CONFIRM.invoke(By::Hash, &keys, &arguments);
        assert_eq!(prepared.by_hash().get_packed_command(), hashed.get_packed_command());
    }
}

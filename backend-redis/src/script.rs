//! The scripts, each one atomic step on the server.

use std::sync::LazyLock;

use redis::Cmd;

/// One script; the server knows it by its hash once it has seen it.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    hash: String,
}

/// How a script is named to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Fails with NOSCRIPT where the server has not seen it.
    Hash,
    /// The server remembers it.
    Text,
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal $(after $first:literal)? $(with $($more:literal)? $(around $inner:literal)?)?;)*) => {
        $($(#[$doc])*
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!(
                $(include_str!(concat!("scripts/", $first)),)?
                include_str!("scripts/record.lua"),
                include_str!("scripts/queue.lua"),
                $($(include_str!(concat!("scripts/", $more)),)?
                $("local function attempt()\n", include_str!(concat!("scripts/", $inner)), "end\n",)?)?
                include_str!(concat!("scripts/", $file)),
            ))
        });)*

        /// Every script, so that a new connection can teach them to its server.
        pub(crate) fn all() -> impl Iterator<Item = &'static Script> {
            [$(&*$name),*].into_iter()
        }
    };
}

scripts! {
    /// One attempt.
    ACQUIRE = "acquire.lua" after "acquire_idle.lua";
    /// A waiter's mark and second look.
    WATCH = "watch.lua";
    /// Prolongs many leases.
    RENEW = "renew.lua";
    /// Gives a lock back.
    RELEASE = "release.lua" after "release_held.lua";
    /// Passes a lock on.
    HAND_OVER = "hand_over.lua";
    /// Looks at many records.
    INSPECT = "inspect.lua";
    /// Takes a lock away.
    FORCE_UNLOCK = "force_unlock.lua";
    /// One attempt at one node of a quorum.
    VOTE = "vote.lua" with "quorum.lua" around "acquire.lua";
    /// Has a node of a quorum take over the token.
    CONFIRM = "confirm.lua" with "quorum.lua";
    /// Passes a lock on at a node of a quorum.
    PASS = "pass.lua" with "quorum.lua";
    /// Prolongs many leases at a node of a quorum, and puts back what it forgot.
    EXTEND = "extend.lua" with "quorum.lua";
    /// Takes an attempt back at a node of a quorum.
    WITHDRAW = "release.lua" after "withdraw.lua";
    /// Keeps a lock that was taken away from being put back at a node of a quorum.
    RAISE = "raise.lua";
}

impl Script {
    /// The script `text`.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { hash: redis::Script::new(&text).get_hash().to_owned(), text }
    }

    /// Its text.
    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Runs the script.
    pub(crate) fn invoke(&self, by: By, keys: &[Vec<u8>], arguments: &[&[u8]]) -> Cmd {
        let size = keys.iter().map(Vec::len).sum::<usize>();
        let size = size + arguments.iter().map(|argument| argument.len()).sum::<usize>();
        let mut command = self.begin(by, keys.len(), arguments.len(), size);
        for key in keys {
            command.arg(key.as_slice());
        }
        for argument in arguments {
            command.arg(*argument);
        }
        command
    }

    /// The same by the script's text, of a command that named it by its hash.
    pub(crate) fn by_text<'a>(&self, hashed: impl Iterator<Item = &'a [u8]>) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(&self.text);
        for argument in hashed.skip(2) {
            command.arg(argument);
        }
        command
    }

    /// The beginning of a command that runs the script; so many keys and arguments, of `size` bytes in
    /// all, have to follow.
    pub(crate) fn begin(&self, by: By, keys: usize, arguments: usize, size: usize) -> Cmd {
        let (name, script) = match by {
            By::Hash => ("EVALSHA", &self.hash),
            By::Text => ("EVAL", &self.text),
        };
        let mut command = Cmd::with_capacity(3 + keys + arguments, 64 + script.len() + size);
        command.arg(name).arg(script).arg(keys);
        command
    }

    /// Teaches the script to the server.
    pub(crate) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&self.text);
        command
    }
}

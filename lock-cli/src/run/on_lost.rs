//! What becomes of the command when its lock is lost.

use clap::ValueEnum;

/// What is done to the command when its lock is lost, or can't be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM, and SIGKILL before the lock's validity ends
    #[default]
    Kill,
    /// SIGTERM alone; the command may go on for as long as it takes to end
    Signal,
    /// Nothing but a line on standard error
    Warn,
}

impl OnLost {
    /// The word for it on a command line.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Signal => "signal",
            Self::Warn => "warn",
        }
    }

    /// Reads the word.
    pub(super) fn read(word: &str) -> Option<Self> {
        [Self::Kill, Self::Signal, Self::Warn].into_iter().find(|one| one.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_command_line() {
        for one in OnLost::value_variants() {
            assert_eq!(OnLost::read(one.word()), Some(*one));
            assert_eq!(one.to_possible_value().unwrap().get_name(), one.word());
        }
        assert_eq!(OnLost::read("ignore"), None);
    }
}

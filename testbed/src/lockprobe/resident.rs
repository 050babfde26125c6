//! How much memory of the machine a process takes.

use std::fmt;

/// Memory that is in use now, by where its content would come from, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resident {
    /// Heap and stacks: what the process has written.
    pub anonymous: u64,
    /// Pages of its program and of libraries. They come with the first use of the code in them, and the system takes
    /// them back when it wants.
    pub program: u64,
}

impl Resident {
    /// What a living process takes.
    ///
    /// # Panics
    /// If the system does not say.
    pub(super) fn of(pid: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
        let read = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let text = line.expect("the system says so").trim().trim_end_matches(" kB");
            text.parse().expect("a number")
        };
        Self { anonymous: read("RssAnon:") + read("RssShmem:"), program: read("RssFile:") }
    }

    /// All of it.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.anonymous + self.program
    }
}

impl fmt::Display for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB ({} of heap and stacks)", self.total(), self.anonymous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_writes_is_told_apart_from_its_program() {
        let before = Resident::of(std::process::id());
        let written = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = Resident::of(std::process::id());
        drop(written);
        assert!(after.anonymous > before.anonymous + (60 << 10), "{before}, then {after}");
        assert!(after.program < before.program + (60 << 10), "{before}, then {after}");
    }
}

//! What /proc knows of processes. Without it (other systems) the answers are `None` or empty.

use std::fs::{self, File};
use std::io::Read;

use rustix::process::{Pid, Signal, getpid};

/// More than a `stat` line has; the system gives that much in one piece.
const SHORT: usize = 1024;

/// How many members of a process group are not zombies.
pub(super) fn live_members(group: Pid) -> Option<usize> {
    let processes = processes()?;
    Some(processes.filter(|process| process.group == group.as_raw_pid() && !process.is_over()).count())
}

/// Zombies that wait for the process `parent` to reap them.
pub(super) fn zombies_of(parent: Pid) -> Vec<Pid> {
    let Some(processes) = processes() else { return Vec::new() };
    processes
        .filter(|process| process.parent == parent.as_raw_pid() && process.is_over())
        .filter_map(|process| Pid::from_raw(process.id))
        .collect()
}

/// Whether a signal stopped the process.
pub(super) fn is_stopped(id: Pid) -> bool {
    process(id.as_raw_pid()).is_some_and(|process| process.state == 'T')
}

/// Those of `signals` that were not ignored when this process was started, as `nohup` and background
/// jobs of simple shells do it.
pub(super) fn not_ignored(signals: &[Signal]) -> Vec<Signal> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    signals.iter().copied().filter(|signal| mask >> (signal.as_raw() - 1) & 1 == 0).collect()
}

/// One process.
pub(super) fn process(id: i32) -> Option<Process> {
    Process::read(id, &short_file(&format!("/proc/{id}/stat"))?)
}

/// Our own process. `None` too where /proc is that of another pid namespace: its ids mean nothing here.
pub(super) fn own() -> Option<Process> {
    let stat = short_file("/proc/self/stat")?;
    let (id, _) = stat.split_once(' ')?;
    let id = id.parse().ok()?;
    if id != getpid().as_raw_pid() {
        return None;
    }
    Process::read(id, &stat)
}

/// Our own process group. `None` if it was made outside our pid namespace, as in a container that was
/// entered without a new session: it has no id in here, and the system calls answer 0.
#[cfg(target_os = "linux")]
pub(crate) fn own_group() -> Option<Pid> {
    // Not by `rustix::process::getpgrp`: it takes the 0 for a valid id.
    own().and_then(|process| Pid::from_raw(process.group))
}

/// Our own process group.
#[cfg(not(target_os = "linux"))]
pub(crate) fn own_group() -> Option<Pid> {
    Some(rustix::process::getpgrp())
}

/// All processes.
pub(super) fn processes() -> Option<impl Iterator<Item = Process>> {
    // Someone else's /proc, or none at all, must not look like "nobody lives".
    own()?;
    let entries = fs::read_dir("/proc").ok()?;
    Some(entries.flatten().filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        process(id)
    }))
}

/// The text of a short file. Read at one go, since a machine may have thousands of them. Names of
/// processes need not be UTF-8.
fn short_file(path: &str) -> Option<String> {
    let mut bytes = [0; SHORT];
    let count = File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: i32,
    state: char,
    parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
}

impl Process {
    /// Reads a `stat` line. The name in it is in brackets and may hold blanks and brackets itself.
    fn read(id: i32, stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        Some(Self { id, state, parent, group, session })
    }

    /// Its environment as it was started with, if we may see that.
    pub(super) fn environment(&self) -> Option<Vec<u8>> {
        fs::read(format!("/proc/{}/environ", self.id)).ok()
    }

    /// Whether it is a zombie: it does nothing any more.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let process = Process::read(42, "42 (a) Z (b) S 1 40 39 0 -1 4194560 0").unwrap();
        assert_eq!(process, Process { id: 42, state: 'S', parent: 1, group: 40, session: 39 });
        assert!(!process.is_over());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_no_text_does_not_hide_a_process() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::process::CommandExt;
        use std::process::{Command, Stdio};

        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(OsStr::from_bytes(b"\xff\xfe"));
        std::os::unix::fs::symlink("/bin/cat", &program).unwrap();
        let mut leader = Command::new(program).process_group(0).stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(live_members(Pid::from_child(&leader)), Some(1));
        drop(leader.stdin.take());
        leader.wait().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_zombie_is_no_live_member_of_its_group() {
        use std::os::unix::process::CommandExt;
        use std::process::{Command, Stdio};

        use rustix::process::{WaitId, WaitIdOptions, waitid};

        let mut leader = Command::new("cat");
        let mut leader = leader.process_group(0).stdin(Stdio::piped()).spawn().unwrap();
        let group = Pid::from_child(&leader);
        assert_eq!(live_members(group), Some(1));
        drop(leader.stdin.take());
        // Ended, and left for `wait` to reap.
        waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert_eq!(live_members(group), Some(0));
        leader.wait().unwrap();
    }
}

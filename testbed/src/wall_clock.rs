//! A wall clock that can be set wrong for some programs, while the machine's goes on.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use tempfile::TempDir;

use crate::nemesis::{Action, Target};

/// The wall clock of programs that are started under it, by a library that is loaded before theirs. It moves
/// the time of day alone. Programs that ask the system without their C library, as those in Go do, don't notice.
#[derive(Debug)]
pub struct WallClock {
    folder: TempDir,
    offset: AtomicI64,
}

impl WallClock {
    /// A clock that is right, so far.
    ///
    /// # Errors
    /// If the library can't be built: it takes a C compiler.
    pub fn new() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        // Servers run as users of their own.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let clock = Self { folder, offset: AtomicI64::new(0) };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim/wall_clock.c");
        let output = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .arg(clock.library())
            .arg(source)
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        std::fs::write(clock.file(), 0_i64.to_ne_bytes())?;
        std::fs::set_permissions(clock.file(), Permissions::from_mode(0o644))?;
        Ok(clock)
    }

    /// Moves it by so many seconds, back if they are negative.
    ///
    /// # Panics
    /// If its file is gone.
    pub fn step(&self, seconds: i64) {
        let nanos = seconds * 1_000_000_000;
        let offset = self.offset.fetch_add(nanos, Ordering::Relaxed) + nanos;
        let file = std::fs::File::options().write(true).open(self.file()).expect("its file is there");
        // In place and at once: the programs look into this very file.
        file.write_all_at(&offset.to_ne_bytes(), 0).expect("its file is writable");
    }

    /// Lets a program be started under it.
    pub fn apply(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.library()).env("DISTLOCK_WALL_CLOCK", self.file());
    }

    /// Its library and its file, as `dev/services.sh` wants them.
    pub(crate) fn for_services(&self) -> String {
        format!("{}={}", self.library().display(), self.file().display())
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("wall_clock.so")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}

/// How far a nemesis moves it, in seconds.
const JUMP: i64 = 30;

#[async_trait]
impl Target for WallClock {
    fn name(&self) -> String {
        "the servers' wall clock".to_owned()
    }

    fn suffers(&self, action: Action) -> bool {
        action == Action::Jump
    }

    async fn begin(&self, _action: Action) {
        self.step(JUMP);
    }

    async fn end(&self, _action: Action) {
        self.step(-JUMP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(clock: &WallClock) -> u64 {
        let mut date = Command::new("date");
        clock.apply(date.arg("+%s"));
        String::from_utf8(date.output().unwrap().stdout).unwrap().trim().parse().unwrap()
    }

    #[test]
    fn it_moves_the_time_of_day_of_its_programs_alone() {
        let clock = WallClock::new().unwrap();
        let right = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        assert!(shown(&clock).abs_diff(right()) < 60);
        clock.step(3600);
        assert!(shown(&clock).abs_diff(right() + 3600) < 60);
        clock.step(-7200);
        assert!(shown(&clock).abs_diff(right() - 3600) < 60);
    }
}

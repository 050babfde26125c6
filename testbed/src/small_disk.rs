//! A disk that is soon full.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// A file system in memory that holds so much and no more. It goes away on drop, and also when this process is killed.
#[derive(Debug)]
pub struct SmallDisk {
    folder: PathBuf,
    janitor: Child,
    /// While this is open the janitor lets the disk be.
    lifeline: Option<ChildStdin>,
}

/// Makes the file system, waits for the end of its input, and takes it away.
const JANITOR: &str = r#"
    mount -t tmpfs -o "size=$2,mode=755" distlock "$1" || exit
    echo made
    read -r _
    umount -l "$1" && rmdir "$1""#;

impl SmallDisk {
    /// Whether this machine lets us make one.
    ///
    /// # Errors
    /// What is in the way.
    pub fn available() -> Result<(), String> {
        Self::new(1).map(drop).map_err(|error| format!("no small disks here (they need root): {error}"))
    }

    /// A disk of so many MiB.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn new(mebibytes: u32) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("distlock-disk-").tempdir()?.keep();
        let mut janitor = Command::new("sh")
            .args(["-c", JANITOR, "janitor"])
            .arg(&folder)
            .arg(format!("{mebibytes}m"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let lifeline = janitor.stdin.take();
        let mut said = String::new();
        BufReader::new(janitor.stdout.take().expect("it is piped")).read_line(&mut said)?;
        if said.trim() != "made" {
            drop(lifeline);
            let output = janitor.wait_with_output()?;
            std::fs::remove_dir(&folder)?;
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(Self { folder, janitor, lifeline })
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fills it to the last byte.
    ///
    /// # Panics
    /// If something else than the lack of room ends that.
    pub fn fill(&self) {
        let mut file = std::fs::File::create(self.filler()).expect("the disk is there");
        for size in [1 << 16, 1 << 9, 1] {
            let block = vec![0; size];
            loop {
                match file.write_all(&block) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                    Err(error) => panic!("a small disk: {error}"),
                }
            }
        }
    }

    /// Gives the room back.
    ///
    /// # Panics
    /// If it was not full.
    pub fn free(&self) {
        std::fs::remove_file(self.filler()).expect("it was filled");
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.janitor.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_when_filled_and_gone_afterwards() {
        let Ok(disk) = SmallDisk::new(1) else { return eprintln!("no small disks here") };
        let file = disk.folder().join("file");
        std::fs::write(&file, "something").unwrap();
        disk.fill();
        assert!(std::fs::write(&file, vec![0; 1 << 13]).is_err());
        disk.free();
        std::fs::write(&file, vec![0; 1 << 13]).unwrap();
        let folder = disk.folder().to_owned();
        drop(disk);
        assert!(!folder.exists());
    }
}

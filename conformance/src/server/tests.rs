use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};

use super::*;

const AMPLE: Duration = Duration::from_secs(20);
/// Serves from its first tick on, and has a child as real servers do.
const TICKER: &str = "echo $$ > pid; while :; do echo x >> ticks; sleep 0.01; done";

fn alive(id: u32) -> bool {
    // A zombie that init has not collected yet is dead.
    let state = fs::read_to_string(format!("/proc/{id}/stat"));
    let dead = state.is_ok_and(|state| state.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")));
    !dead && test_kill_process(Pid::from_raw(id.cast_signed()).unwrap()).is_ok()
}

fn serves(data: &Path) -> Result<(), String> {
    let id = fs::read_to_string(data.join("pid")).map_err(|error| error.to_string())?;
    let id = id.trim().parse().map_err(|_| "half a number".to_owned())?;
    if alive(id) && data.join("ticks").exists() { Ok(()) } else { Err("it does not tick".to_owned()) }
}

fn ticker(data: &Path) -> ServerCommand {
    let folder = data.to_owned();
    ServerCommand::new("ticker", "sh", data, move || serves(&folder)).args(["-c", TICKER])
}

fn ticks(data: &Path) -> u64 {
    fs::metadata(data.join("ticks")).map_or(0, |file| file.len())
}

fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let began = Instant::now();
    while !seen() {
        assert!(began.elapsed() < AMPLE, "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Rig {
    folder: tempfile::TempDir,
    data: PathBuf,
}

fn rig() -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    Rig { folder, data }
}

#[tokio::test]
async fn it_is_killed_and_starts_again_on_its_data_or_without() {
    let rig = rig();
    let server = ServerProcess::start(ticker(&rig.data)).unwrap();
    let first = server.id().unwrap();
    fs::write(rig.data.join("kept"), "data").unwrap();
    server.kill9().await;
    assert!(server.id().is_none() && !alive(first));
    let still = ticks(&rig.data);
    server.restart(Data::Kept).await;
    assert_ne!(server.id(), Some(first));
    assert!(rig.data.join("kept").exists());
    until("it to tick on", || ticks(&rig.data) > still);
    server.restart(Data::Wiped).await;
    assert!(!rig.data.join("kept").exists());
    let last = server.id().unwrap();
    drop(server);
    assert!(!alive(last));
    drop(rig.folder);
}

#[tokio::test]
async fn it_stands_still_while_it_is_paused() {
    let rig = rig();
    let server = ServerProcess::start(ticker(&rig.data)).unwrap();
    server.pause().await;
    // What was under way when the signal was sent is over when two looks agree.
    let mut seen = u64::MAX;
    until("it to stand still", || {
        std::thread::sleep(Duration::from_millis(100));
        std::mem::replace(&mut seen, ticks(&rig.data)) == ticks(&rig.data)
    });
    server.resume().await;
    until("it to go on", || ticks(&rig.data) > seen);
    server.pause().await;
    let id = server.id().unwrap();
    drop(server);
    assert!(!alive(id), "a paused one can be killed too");
}

#[test]
fn what_does_not_start_says_why() {
    let rig = rig();
    let command = |script: &str| {
        ServerCommand::new("it", "sh", &rig.data, || Err("not yet".into())).args(["-c", script])
    };
    let error = ServerProcess::start(command("echo no such option >&2; exit 3")).unwrap_err();
    assert!(error.contains("exit status: 3") && error.contains("no such option"), "{error}");
    let error = ServerProcess::start(command("sleep 1000").patience(Duration::from_millis(50))).unwrap_err();
    assert!(error.contains("does not serve") && error.contains("not yet"), "{error}");
    let missing = ServerCommand::new("it", "/no/such/program", &rig.data, || Err("not yet".into()));
    let error = ServerProcess::start(missing).unwrap_err();
    assert!(error.contains("/no/such/program"), "{error}");
    let taken = ServerCommand::new("it", "sleep", &rig.data, || Ok(())).args(["1000"]);
    let error = ServerProcess::start(taken).unwrap_err();
    assert!(error.contains("something else"), "{error}");
}

#[tokio::test]
async fn an_empty_folder_is_prepared_and_a_full_one_is_not() {
    let rig = rig();
    let command = ticker(&rig.data).prepare(|data| fs::write(data.join("prepared"), "once")).env("A", "1");
    let server = ServerProcess::start(command).unwrap();
    fs::write(rig.data.join("prepared"), "used").unwrap();
    server.restart(Data::Kept).await;
    assert_eq!(fs::read_to_string(rig.data.join("prepared")).unwrap(), "used");
    server.restart(Data::Wiped).await;
    assert_eq!(fs::read_to_string(rig.data.join("prepared")).unwrap(), "once");
}

#[tokio::test]
async fn what_left_its_group_is_waited_for() {
    let rig = rig();
    let script = format!("setsid sleep 0.5 & {TICKER}");
    let folder = rig.data.clone();
    let command = ServerCommand::new("it", "sh", &rig.data, move || serves(&folder)).args(["-c", &script]);
    let server = ServerProcess::start(command).unwrap();
    server.kill9().await;
    if cfg!(target_os = "linux") {
        let here =
            |entry: fs::DirEntry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == rig.data);
        assert!(!fs::read_dir("/proc").unwrap().flatten().any(here));
    }
}

/// The name of the variable in which the test below tells itself that it is the victim.
const VICTIM: &str = "DISTLOCK_CONFORMANCE_VICTIM";

#[test]
fn it_dies_with_the_process_that_started_it() {
    if let Some(data) = std::env::var_os(VICTIM) {
        // Started in a thread that ends, as the thread of a case does.
        let data = PathBuf::from(data);
        let server = std::thread::spawn(move || ServerProcess::start(ticker(&data)).unwrap()).join().unwrap();
        println!("\nstarted {}", server.id().unwrap());
        std::thread::sleep(Duration::from_secs(600));
        drop(server);
        return;
    }
    let rig = rig();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server::tests::it_dies_with_the_process_that_started_it", "--nocapture"])
        .env(VICTIM, &rig.data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let id = lines.find_map(|line| line.strip_prefix("started ")?.parse().ok()).expect("it starts a server");
    assert!(alive(id));
    victim.kill().unwrap();
    assert_eq!(victim.wait().unwrap().signal(), Some(9));
    until("the server to die", || !alive(id));
}

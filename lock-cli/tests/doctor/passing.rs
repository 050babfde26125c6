//! The calls of the pages that hand something to `psql`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use distlock::StoreUrl;
use distlock_testbed::ServiceSet;
use tokio::runtime::Runtime;

use crate::page::{call, shell, shown};
use crate::rig::{Rig, ended};

pub(crate) fn through_psql(set: &ServiceSet, _: &Runtime) {
    let url = set.url("postgres");
    // The tables of the locks, by somebody who may create them.
    let rig = Rig::at(format!("{url}?create=off"));
    let missing = ended(&mut rig.run(&["reports/daily"], "true"));
    assert_eq!(missing.status, Some(70), "{missing:?}");
    let page = shown("docs/cli.md");
    let line = page.iter().find(|line| line.contains(" schema --print | psql app")).unwrap();
    let asked = call(line).unwrap();
    let named = asked.split_whitespace().find(|word| word.starts_with("postgres://")).unwrap();
    let line = line.replace(named, url).replace("psql app", "psql --set ON_ERROR_STOP=1");
    let end = ended(connected(&mut shell(&rig, &line), url));
    assert_eq!(end.status, Some(0), "{end:?}");

    // A report that is sent once by whoever has the newest token.
    let psql = |statement: &str| {
        let mut command = Command::new("psql");
        let end =
            ended(connected(command.args(["--tuples-only", "--no-align", "--command", statement]), url));
        assert_eq!(end.status, Some(0), "{end:?}");
        end.stdout.trim().to_owned()
    };
    psql(
        "CREATE TABLE reports (day date, state text, token bigint); INSERT INTO reports VALUES (current_date, 'new', 0)",
    );
    let page = shown("lock-cli/README.md");
    let first = page.iter().position(|line| line.starts_with("# report.sh, run by: ")).unwrap();
    let script = rig.path("report.sh");
    fs::write(&script, page[first - 1..first + 3].join("\n") + "\n").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let run = page[first].trim_start_matches("# report.sh, run by: ");
    let reported = || {
        let end = ended(connected(&mut shell(&rig, run), url));
        assert_eq!(end.status, Some(0), "{end:?}");
        let row = psql("SELECT state, token FROM reports");
        let (state, token) = row.split_once('|').unwrap();
        (state.to_owned(), token.parse::<u64>().unwrap())
    };
    let [one, two] = [reported(), reported()];
    assert!(one.0 == "sent" && two.0 == "sent" && 0 < one.1 && one.1 < two.1, "{one:?}, then {two:?}");
    // Somebody with a later token was here.
    let later = i64::MAX.cast_unsigned();
    psql(&format!("UPDATE reports SET state = 'sent by the next', token = {later}"));
    assert_eq!(reported(), ("sent by the next".to_owned(), later));
}

/// Has `psql` connect to this server.
fn connected<'a>(command: &'a mut Command, url: &str) -> &'a mut Command {
    let StoreUrl { hosts, user, path, .. } = StoreUrl::parse(url).unwrap();
    let port = hosts[0].port.unwrap().to_string();
    command
        .env("PGHOST", &hosts[0].name)
        .env("PGPORT", port)
        .env("PGUSER", user.unwrap())
        .env("PGDATABASE", path)
}

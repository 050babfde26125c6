//! Opening: the first time, many at once, and everything that is in the way.

use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::sync::Arc;

use distlock_core::{Error, ErrorKind, LockBackend, LockClient, Registry};
use distlock_sql::sqlite::{SqliteBackend, SqliteConfig, driver};
use sqlx::Row;

use crate::support::{Place, SECOND, busy, child, given, request, take};

async fn refused(config: SqliteConfig) -> Error {
    let error = SqliteBackend::connect(config).await.unwrap_err();
    assert!(error.to_string().starts_with("sqlite connect: "), "{error}");
    error
}

#[tokio::test]
async fn the_file_is_created_marked_as_ours_and_reopened() {
    let place = Place::new();
    let lease = take(&place.open().await, "a", 10 * SECOND).await;
    let rows =
        place.rows("SELECT application_id, user_version FROM pragma_application_id, pragma_user_version");
    let rows = rows.await;
    assert_eq!((rows[0].get::<i64, _>(0), rows[0].get::<i64, _>(1)), (0x646c_636b, 1));
    let again = place.open().await;
    assert!(matches!(again.renew(&lease, SECOND).await.unwrap(), distlock_core::Renewal::Renewed { .. }));
}

#[tokio::test]
async fn a_registry_opens_it_by_url() {
    let place = Place::new();
    let registry = Registry::new().with(driver());
    let file = place.file();
    let client = registry.connect(&format!("sqlite:{}?poll=5ms&ttl=5s", file.display())).await.unwrap();
    client.lock("a").await.unwrap().unlock().await.unwrap();
    // Both forms name the same file.
    let client = registry.connect(&format!("sqlite://{}", file.display())).await.unwrap();
    client.lock("a").await.unwrap().unlock().await.unwrap();
    let error = registry.connect("sqlite:x.db?pol=5ms").await.unwrap_err();
    assert!(error.to_string().contains("did you mean `poll`"), "{error}");
    let error = registry.connect("sqlite::memory:").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidUrl);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_tasks_open_a_new_file_at_once() {
    let place = Arc::new(Place::new());
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let place = Arc::clone(&place);
            tokio::spawn(async move { take(&place.open().await, &format!("key/{n}"), SECOND).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

const FILE: &str = "DISTLOCK_TEST_OPEN_FILE";

#[tokio::test]
async fn child_that_opens() {
    let Some(file) = given(FILE) else { return };
    let backend = SqliteBackend::connect(SqliteConfig::new(file)).await.unwrap();
    take(&backend, &format!("key/{}", std::process::id()), SECOND).await;
    println!("child opened it");
}

#[tokio::test]
async fn twenty_processes_open_a_new_file_at_once() {
    let place = Place::new();
    let file = place.file();
    let children: Vec<_> = (0..20)
        .map(|_| {
            let mut command = child("opening::child_that_opens", &[(FILE, file.to_str().unwrap())]);
            command.stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("child opened it"), "{text}");
    }
}

#[tokio::test]
async fn missing_folders_and_folders_in_the_files_place_say_what_to_do() {
    let place = Place::new();
    let error = refused(SqliteConfig::new(place.path("no/such/locks.db"))).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("mkdir -p") && error.to_string().contains("no/such"), "{error}");
    let error = refused(SqliteConfig::new(place.path(""))).await;
    assert!(error.to_string().contains("is a folder"), "{error}");
    std::fs::write(place.path("plain"), "x").unwrap();
    let error = refused(SqliteConfig::new(place.path("plain/locks.db"))).await;
    assert!(matches!(error.kind(), ErrorKind::Misconfigured | ErrorKind::PermissionDenied), "{error}");
    assert_eq!(refused(SqliteConfig::new(":memory:")).await.kind(), ErrorKind::InvalidOptions);
    let config = place.config().poll(std::time::Duration::ZERO);
    assert_eq!(refused(config).await.kind(), ErrorKind::InvalidOptions);
}

#[tokio::test]
async fn a_file_with_two_names_is_refused_by_both() {
    let place = Place::new();
    place.open().await.close().await.unwrap();
    std::fs::hard_link(place.file(), place.path("other.db")).unwrap();
    for file in [place.file(), place.path("other.db")] {
        let error = refused(SqliteConfig::new(file)).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("hard links"), "{error}");
    }
    // A symbolic link is followed to the one file, with the one log.
    std::fs::remove_file(place.path("other.db")).unwrap();
    std::os::unix::fs::symlink(place.file(), place.path("other.db")).unwrap();
    let by_link = SqliteBackend::connect(SqliteConfig::new(place.path("other.db"))).await.unwrap();
    let lease = take(&by_link, "a", 10 * SECOND).await;
    let seen = busy(place.open().await.try_lock(&request("a", SECOND)).await);
    assert_eq!(seen.holder.unwrap().token, lease.token);
}

#[tokio::test]
async fn foreign_files_are_refused_and_left_as_they_are() {
    let place = Place::new();
    let text = "Dear diary, this is no database at all. ".repeat(100);
    std::fs::write(place.file(), &text).unwrap();
    let error = refused(place.config()).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("not an SQLite database"), "{error}");
    assert_eq!(std::fs::read_to_string(place.file()).unwrap(), text);

    let place = Place::new();
    place.execute("CREATE TABLE orders (id INTEGER)").await;
    let before = std::fs::read(place.file()).unwrap();
    let error = refused(place.config()).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("another program"), "{error}");
    assert_eq!(std::fs::read(place.file()).unwrap(), before);

    let place = Place::new();
    place.execute("PRAGMA application_id = 77").await;
    assert_eq!(refused(place.config()).await.kind(), ErrorKind::Misconfigured);
}

#[tokio::test]
async fn empty_files_and_databases_are_taken() {
    let place = Place::new();
    std::fs::write(place.file(), "").unwrap();
    take(&place.open().await, "a", SECOND).await;
    let place = Place::new();
    place.execute("CREATE TABLE t (x)").await;
    place.execute("DROP TABLE t").await;
    take(&place.open().await, "a", SECOND).await;
}

#[tokio::test]
async fn a_newer_layout_asks_for_an_upgrade() {
    let place = Place::new();
    place.open().await.close().await.unwrap();
    place.execute("PRAGMA user_version = 2").await;
    let error = refused(place.config()).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("upgrade this program"), "{error}");
}

#[tokio::test]
async fn a_damaged_database_is_corrupt() {
    let place = Place::new();
    place.open().await.close().await.unwrap();
    let length = std::fs::metadata(place.file()).unwrap().len();
    let mut file = std::fs::OpenOptions::new().write(true).open(place.file()).unwrap();
    // Behind the header, so that it still is a database.
    file.seek(SeekFrom::Start(100)).unwrap();
    file.write_all(&vec![0xa5; length as usize - 100]).unwrap();
    drop(file);
    let error = refused(place.config()).await;
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

const DENIED: &str = "DISTLOCK_TEST_DENIED_FILE";

#[tokio::test]
async fn child_without_rights() {
    let Some(file) = given(DENIED) else { return };
    let error = refused(SqliteConfig::new(&file)).await;
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("give this user the right"), "{error}");
    println!("child was denied: {error}");
}

#[tokio::test]
async fn files_and_folders_without_rights_are_permission_denied() {
    let place = Place::new();
    place.open().await.close().await.unwrap();
    std::fs::set_permissions(place.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(place.file(), std::fs::Permissions::from_mode(0o644)).unwrap();
    // The binary itself may stand where another user can't read it.
    let binary = place.path("this-test");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    std::fs::create_dir(place.path("sub")).unwrap();
    for file in [place.file(), place.path("sub/locks.db")] {
        let like = child("opening::child_without_rights", &[]);
        let mut command = std::process::Command::new(&binary);
        command.args(like.get_args()).env(DENIED, &file).current_dir(place.path(""));
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            command.uid(65_534).gid(65_534);
        } else {
            let target = if file.exists() { file.clone() } else { place.path("sub") };
            std::fs::set_permissions(target, std::fs::Permissions::from_mode(0o555)).unwrap();
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("child was denied"), "{}: {text}", file.display());
    }
}

#[tokio::test]
async fn a_client_works_on_it() {
    let place = Place::new();
    let client = LockClient::new(Arc::new(place.open().await));
    let guard = client.lock("a").await.unwrap();
    assert!(client.try_lock("a").await.unwrap().is_none());
    guard.unlock().await.unwrap();
    assert!(client.backend().try_lock(&request("a", SECOND)).await.is_ok());
}

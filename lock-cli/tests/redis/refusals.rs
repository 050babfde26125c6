//! One line that says what to do, and the right status.

use crate::Test;
use crate::rig::{Rig, ended};

pub(crate) const TESTS: &[Test] =
    &[("refusals::what_can_t_be_used_is_one_line_with_advice", what_can_t_be_used_is_one_line_with_advice)];

fn what_can_t_be_used_is_one_line_with_advice(url: &str) {
    let server = url.split('@').next_back().unwrap().trim_start_matches("redis://");
    let server = server.split('/').next().unwrap();
    let rig = Rig::memory();
    for (url, status, advice) in [
        ("redis://127.0.0.1:1".to_owned(), 69, "nobody listens"),
        (format!("redis://nobody:secret@{server}"), 70, "user and password"),
        (format!("redis://{server}/100000"), 70, "no database of that number"),
        (format!("redis+sentinel://{server}/mymaster"), 70, "no Sentinel"),
        (format!("redis+cluster://{server}"), 70, "connect with redis://"),
        (format!("redis://{server}?quue=on"), 64, "did you mean `queue`"),
        (format!("redis-cluster://{server}"), 64, "did you mean `redis+cluster:`"),
        ("redis:localhost".to_owned(), 64, "redis://localhost"),
    ] {
        for command in [&["ls"][..], &["run", "k", "--", "touch", "ran"], &["info"], &["try", "k"]] {
            let end = ended(&mut rig.distlock(&[&["--url", &url], command].concat()));
            assert_eq!((end.status, end.stdout.as_str()), (Some(status), ""), "{url} {command:?}: {end:?}");
            assert_eq!(end.stderr.lines().count(), 1, "{end:?}");
            assert!(end.stderr.starts_with("distlock: ") && end.stderr.contains(advice), "{end:?}");
            assert!(!end.stderr.contains("secret"), "{end:?}");
        }
    }
    assert!(!rig.path("ran").exists());
}

//! What settings of MySQL and MariaDB endanger locks.

use crate::server::{Findings, KeptAs};

/// How to have a replica waited for. The names are MySQL's, and those of MariaDB and older MySQL.
const WAIT: &str = "turn on semi-synchronous replication (rpl_semi_sync_source_enabled, or rpl_semi_sync_master_enabled, and its like at the replicas)";

/// What settings endanger locks, by the answers to `PROBE` and `REPLICATION`.
pub(super) fn findings(settings: &[String], locks: KeptAs) -> Findings {
    let mut found = Vec::new();
    let mut say = |what: String, fix: String| found.push((what, fix));
    let is = |at: usize, value: &str| settings.get(at).is_some_and(|setting| setting == value);
    if !is(0, "1") {
        let lost = match locks {
            KeptAs::Rows => "grants, and give those locks to others",
            KeptAs::Sessions => "tokens",
        };
        say(
            format!(
                "innodb_flush_log_at_trx_commit is not 1: a power cut, with 0 also a crash of the server, may forget the last {lost}"
            ),
            "set innodb_flush_log_at_trx_commit to 1".to_owned(),
        );
    }
    if is(1, "0") || is(1, "OFF") {
        say(
            "innodb_doublewrite is off: a power cut may damage the data".to_owned(),
            "turn innodb_doublewrite on".to_owned(),
        );
    }
    let has_log = is(2, "1");
    if has_log && !is(3, "1") && locks == KeptAs::Rows {
        say(
            "sync_binlog is not 1: after a power cut the binary log may lack the last grants, and replicas with it"
                .to_owned(),
            "set sync_binlog to 1".to_owned(),
        );
    }
    let replicas = settings.get(4).map_or("", String::as_str);
    let (danger, fix) = match locks {
        KeptAs::Rows if is(5, "ON") => return found,
        KeptAs::Rows => (
            "one that takes over may lack the last grants, and give those locks to others",
            format!("{WAIT}, or let the resource check tokens"),
        ),
        KeptAs::Sessions => (
            "one that takes over knows no locks of sessions, and gives those that are held to others",
            format!("let the resource check tokens, or use lease rows (mysql://) and {WAIT}"),
        ),
    };
    match replicas {
        "0" => {}
        // Without its log nobody can follow.
        "" if has_log => say(
            format!("whether replicas follow this server can't be seen by this user; if they do, {danger}"),
            format!("where there are replicas, {fix}; the right PROCESS shows whether there are"),
        ),
        "" => {}
        _ if locks == KeptAs::Rows => {
            say(format!("replicas follow this server asynchronously: {danger}"), fix);
        }
        _ => say(format!("replicas follow this server: {danger}"), fix),
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of replicas, with these answers about the log, the replicas and whether one is waited for.
    fn said(answers: [&str; 3], locks: KeptAs) -> Vec<String> {
        let [log, replicas, waits] = answers;
        let settings = ["1", "1", log, "1", replicas, waits].map(str::to_owned);
        findings(&settings, locks).into_iter().map(|(what, fix)| format!("{what}; {fix}")).collect()
    }

    #[test]
    fn replicas_that_are_not_waited_for_are_found() {
        let found = said(["1", "2", "OFF"], KeptAs::Rows);
        assert!(found.len() == 1 && found[0].contains("asynchronously") && found[0].contains("semi-sync"));
        assert_eq!(said(["1", "2", "ON"], KeptAs::Rows), [""; 0]);
        assert_eq!(said(["1", "0", "OFF"], KeptAs::Rows), [""; 0]);
        assert_eq!(said(["0", "0", "OFF"], KeptAs::Rows), [""; 0]);
    }

    #[test]
    fn locks_of_sessions_are_on_no_replica_whether_it_is_waited_for_or_not() {
        for waits in ["ON", "OFF"] {
            let found = said(["1", "1", waits], KeptAs::Sessions);
            assert!(found.len() == 1 && found[0].contains("no locks of sessions"), "{found:?}");
        }
        assert_eq!(said(["1", "0", "OFF"], KeptAs::Sessions), [""; 0]);
    }

    #[test]
    fn what_a_user_can_t_see_is_said_where_there_may_be_replicas() {
        for locks in [KeptAs::Rows, KeptAs::Sessions] {
            let found = said(["1", "", "OFF"], locks);
            assert!(found.len() == 1 && found[0].contains("PROCESS"), "{found:?}");
            assert_eq!(said(["0", "", "OFF"], locks), [""; 0]);
        }
        // The same where the server refused the question.
        let settings = ["1", "1", "1", "1"].map(str::to_owned);
        assert_eq!(findings(&settings, KeptAs::Rows).len(), 1);
    }
}

//! What an error says about a store: the check that it belongs to, and what to do.

use distlock::{Error, ErrorKind};

/// How texts go on that say behind their semicolon what is not known, or comes by itself.
const NO_REMEDY: [&str; 3] = ["whether ", "it is ", "it serves "];

/// The check that an error belongs to, which came up while `doing` was checked.
pub(super) fn check(error: &Error, doing: &'static str) -> &'static str {
    // The backends' words: kinds don't tell these apart.
    match error.kind() {
        ErrorKind::Misconfigured if error.message().contains("pooler") => "poolers",
        ErrorKind::Misconfigured if error.message().contains("the tables") => "schema",
        ErrorKind::Misconfigured => "settings",
        ErrorKind::PermissionDenied => "rights",
        _ => doing,
    }
}

/// What to do about it: what its own text says behind a semicolon, or else what helps with errors of its kind.
pub(super) fn fix(error: &Error) -> &str {
    match error.message().split_once("; ") {
        Some((_, fix)) if !NO_REMEDY.iter().any(|begin| fix.starts_with(begin)) => fix,
        _ => in_general(error.kind()),
    }
}

const fn in_general(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => {
            "see that the server runs, that address and port are right, and that the network lets through"
        }
        ErrorKind::Overloaded => {
            "raise the limit that the message names, at the server or in the URL, or let fewer programs use the store"
        }
        ErrorKind::TooSlow => "look at the load of the server and at the network, or give locks a longer ttl",
        ErrorKind::NotReplicated => {
            "bring the missing replicas back, or let the locks wait for fewer (wait_replicas)"
        }
        ErrorKind::PermissionDenied => {
            "see that user and password are right, and grant the user of the locks what is missing"
        }
        ErrorKind::Misconfigured => "change the setting that the message names, at the server or in the URL",
        ErrorKind::Corrupt => {
            "see what else writes to the locks' records, and delete the damaged one once nobody holds its lock"
        }
        ErrorKind::Lost | ErrorKind::WaitTimeout => {
            "see whether somebody else writes to the locks' records, or takes locks away"
        }
        ErrorKind::Unsupported => "name another store, or do without what the message names",
        _ => "look into the server's log for the time of this examination",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_belongs_to_a_check() {
        let of = |kind, message: &str| check(&Error::new(kind, message), "reach");
        assert_eq!(of(ErrorKind::Unavailable, "no answer"), "reach");
        assert_eq!(of(ErrorKind::Misconfigured, "a connection pooler stands in between"), "poolers");
        assert_eq!(of(ErrorKind::Misconfigured, "the tables are missing"), "schema");
        assert_eq!(of(ErrorKind::Misconfigured, "maxmemory-policy is allkeys-lru"), "settings");
        assert_eq!(of(ErrorKind::PermissionDenied, "no right"), "rights");
        assert_eq!(of(ErrorKind::Overloaded, "the tables are locked"), "reach");
    }

    #[test]
    fn an_error_that_says_what_to_do_is_heard() {
        let error = Error::new(ErrorKind::Misconfigured, "the tables are missing; create them");
        assert_eq!(fix(&error), "create them");
    }

    #[test]
    fn an_error_that_goes_on_with_something_else_gets_the_remedy_of_its_kind() {
        for message in
            ["no answer in time; whether it acted is not known", "it loads; it serves when that is done"]
        {
            let error = Error::new(ErrorKind::Unavailable, message);
            assert_eq!(fix(&error), in_general(ErrorKind::Unavailable));
        }
    }

    #[test]
    fn each_kind_that_a_store_gives_has_a_remedy_of_its_own() {
        let kinds = [
            ErrorKind::Unavailable,
            ErrorKind::Overloaded,
            ErrorKind::TooSlow,
            ErrorKind::NotReplicated,
            ErrorKind::PermissionDenied,
            ErrorKind::Misconfigured,
            ErrorKind::Corrupt,
            ErrorKind::Lost,
            ErrorKind::Unsupported,
            ErrorKind::Other,
        ];
        let fixes: std::collections::BTreeSet<_> =
            kinds.iter().map(|kind| fix(&Error::new(*kind, "no")).to_owned()).collect();
        assert_eq!(fixes.len(), kinds.len());
    }
}

//! The statements on the tables, as both kinds of servers have them.
//!
//! Times are microseconds since 1970 by the server's clock, ttls are microseconds. A lock is held while
//! `expires_at` is to come, whatever else its row says.

use super::probe::Probing;
use super::statement::Template;

/// The statements on the tables. Values stand in the order in which they are described.
#[derive(Debug)]
pub(crate) struct Statements {
    /// The layout's version, and 1 if the server can carry out those that are about many locks and say what they did, 0 else.
    pub(crate) layout: Template,
    /// Takes the lock, or restarts the expiry of the claim that holds it. Key, owner, ttl, metadata. The token is
    /// the number.
    pub(crate) acquire: Template,
    /// The same for many. List of them, with ttl and metadata. Gives those granted, others maybe: the key, and then the row.
    pub(crate) acquire_many: Template,
    /// The same for one who waits. Where the token is not granted, and the server can tell of releases, it leaves a
    /// mark, and gives the lock's row, after a number.
    pub(crate) acquire_or_mark: Template,
    /// A lock's row: [`COLUMNS`], after a number. Key.
    pub(crate) look: Template,
    /// Prolongs leases. List of them, ttl.
    pub(crate) renew: Template,
    /// The locks of leases: key, owner, token, time left. List of leases.
    pub(crate) standing: Template,
    /// Frees a held lock and tells who waits. Key, owner.
    pub(crate) release: Template,
    /// The same for many. List of them with a place each. The number has a bit for each place of one that was freed.
    pub(crate) release_many: Template,
    /// Clears a hold whose time is over. Key, owner.
    pub(crate) withdraw: Template,
    /// Passes a held lock on. Key, owner, token, next owner, ttl, metadata. The number is the token.
    pub(crate) hand_over: Template,
    /// Cuts an expiry that is further away than the hold's own ttl. Key.
    pub(crate) cut: Template,
    /// Leaves a mark on a held lock. Key.
    pub(crate) mark: Template,
    /// Which of the listed locks are held: key and token. List of keys.
    pub(crate) held: Template,
    /// Held locks with their rows, after their key: least key, key to come after, key to stay below, limit.
    pub(crate) list: Template,
    /// Takes the lock from its holder and tells who waits. Key, token that was seen.
    pub(crate) force: Template,
    /// The next records of a round of pruning, as one row if there are any: the last key, their number, and 1 if
    /// some of them can go. Key to come after, idle time, limit.
    pub(crate) prunable: Template,
    /// Deletes records. Key to come after, last key, idle time.
    pub(crate) prune: Template,
    /// The server's time.
    pub(crate) now: Template,
    /// The server about itself.
    pub(crate) probing: Probing,
    /// Creates what is missing, without values.
    pub(crate) create: String,
}

impl Statements {
    /// Those on locks, by name.
    pub(crate) fn named(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("acquire", &self.acquire),
            ("acquire_many", &self.acquire_many),
            ("acquire_or_mark", &self.acquire_or_mark),
            ("look", &self.look),
            ("renew", &self.renew),
            ("standing", &self.standing),
            ("release", &self.release),
            ("release_many", &self.release_many),
            ("withdraw", &self.withdraw),
            ("hand_over", &self.hand_over),
            ("cut", &self.cut),
            ("mark", &self.mark),
            ("held", &self.held),
            ("list", &self.list),
            ("force", &self.force),
            ("prunable", &self.prunable),
            ("prune", &self.prune),
        ];
        all.map(|(name, template)| (name, template.text().to_owned())).to_vec()
    }
}

/// The columns of a lock's row, from token on. `{now}` is the server's time. A time before 1970 is over, and the difference to it
/// may be too great for the server.
pub(crate) const COLUMNS: &str =
    "token, owner, CASE WHEN expires_at > 0 THEN expires_at - {now} END, ttl, metadata";

/// No token can follow this one.
pub(crate) const LAST_TOKEN: &str = "9223372036854775807";

/// What stands for what in the texts of statements.
pub(crate) struct Texts<'a> {
    pub(crate) template: fn(&str) -> Template,
    pub(crate) names: &'a [(&'a str, &'a str)],
}

impl Texts<'_> {
    /// A statement, with names put in.
    pub(crate) fn of(&self, text: &str) -> Template {
        (self.template)(&self.plain(text))
    }

    /// The same without values.
    pub(crate) fn plain(&self, text: &str) -> String {
        let mut text = text.replace("{columns}", COLUMNS);
        for (name, meaning) in self.names {
            text = text.replace(name, meaning);
        }
        text
    }
}

pub(crate) const LAYOUT: &str = "SELECT version, {gathers} FROM {layout} WHERE id = 1";

pub(crate) const LOOK: &str = "SELECT 0, {columns} FROM {locks} WHERE lock_key = :1";

pub(crate) const WITHDRAW: &str =
    "UPDATE {locks} SET owner = NULL, expires_at = NULL, ttl = NULL, metadata = ''
 WHERE lock_key = :1 AND owner = :2 AND expires_at <= {now}";

pub(crate) const CUT: &str = "UPDATE {locks} SET expires_at = {now} + ttl
 WHERE lock_key = :1 AND expires_at > {now} + ttl";

pub(crate) const LIST: &str = "SELECT lock_key, {columns} FROM {locks}
 WHERE lock_key >= :1 AND lock_key > :2 AND lock_key < :3 AND expires_at > {now}
 ORDER BY lock_key LIMIT :4";

pub(crate) const PRUNABLE: &str = "SELECT lock_key, COUNT(*) OVER (), MAX(can_go) OVER () FROM (
   SELECT lock_key,
     CASE WHEN token < {now} - :2 AND (expires_at IS NULL OR expires_at <= {now}) THEN 1 ELSE 0 END AS can_go
   FROM {locks} WHERE lock_key > :1 ORDER BY lock_key LIMIT :3) seen
 ORDER BY lock_key DESC LIMIT 1";

pub(crate) const NOW: &str = "SELECT {now}";

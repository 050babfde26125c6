//! One member of a store with several.

/// Schemes of stores of which each member serves every key, but not each in the same time: what goes to a follower
/// takes one way more.
const ANY_MEMBER: [&str; 4] = ["etcd", "etcds", "zk", "zks"];

/// The URL with one of its hosts alone, another one in each round, so that client, floor and peers ask the same
/// member. Of other stores, the URL as it is.
pub(super) fn member(url: &str, round: usize) -> String {
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| ANY_MEMBER.contains(scheme)) else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let hosts: Vec<&str> = hosts.split(',').collect();
    format!("{scheme}://{user}{}{path}", hosts[round % hosts.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_asks_one_member_and_the_next_round_another() {
        let url = "etcd://me:se%2Ccret@a:1,b:2,[::1]:3/app?renew=2s";
        assert_eq!(member(url, 0), "etcd://me:se%2Ccret@a:1/app?renew=2s");
        assert_eq!(member(url, 4), "etcd://me:se%2Ccret@b:2/app?renew=2s");
        assert_eq!(member(url, 2), "etcd://me:se%2Ccret@[::1]:3/app?renew=2s");
        assert_eq!(member("zk://a:1,b:2", 3), "zk://b:2");
        for whole in ["redlock://a:1,b:2,c:3", "redis+cluster://a:1,b:2", "sqlite:x.db", "etcd://a:1"] {
            assert_eq!(member(whole, 1), whole);
        }
    }
}

//! Keys are any bytes, and two different keys never share a lock.

use std::collections::BTreeSet;

use distlock_core::{Claim, ClientOptions, ErrorKind, LockClient, LockKey, LockRequest, Namespace};

use super::*;

cases! { "names":
    torturous_keys_are_all_different [ManyHeld],
    near_misses_are_all_different [ManyHeld],
    random_bytes_are_all_different [ManyHeld],
    the_longest_keys_are_all_different,
    one_byte_keys_are_all_different [ManyHeld],
    every_key_is_listed_as_it_is [Admin, ManyHeld],
    prefixes_match_bytes_and_nothing_else [Admin],
    bad_keys_are_refused_before_any_io,
    namespaces_keep_keys_apart,
    a_namespace_shows_its_own_keys [Admin],
    a_namespace_counts_in_the_length,
}

/// Names that some store, shell, path or protocol would treat specially.
const TORTURE: &[&[u8]] = &[
    b"plain",
    b"PLAIN",
    b"Plain",
    b"plain ",
    b" plain",
    b"plain\t",
    b"plain\n",
    b"plain\r\n",
    b"plain\0",
    b"\0plain",
    b"pl\0ain",
    b".",
    b"..",
    b"../..",
    b"/",
    b"//",
    b"a/b",
    b"a//b",
    b"/a",
    b"a/",
    b"a",
    b"%",
    b"%%",
    b"%00",
    b"%2F",
    b"%2f",
    b"%25",
    b"_",
    b"__",
    b"*",
    b"?",
    b"[a]",
    b"{a}",
    b"{}",
    b"{a}b",
    b"a{b}",
    b"'",
    b"''",
    b"\"",
    b"\\",
    b"\\\\",
    b"\\0",
    b"`",
    b"$x",
    b"$(x)",
    b"; DROP TABLE locks; --",
    b"' OR '1'='1",
    b"/*",
    b"--",
    b":",
    b"a:b",
    b"a::b",
    b"|",
    b"&",
    b"<",
    b"#",
    b"@",
    b"~",
    b"!",
    b",",
    b"+",
    b"=",
    b"caf\xc3\xa9",
    b"cafe\xcc\x81",
    b"cafe",
    b"CAF\xc3\x89",
    b"stra\xc3\x9fe",
    b"strasse",
    b"STRASSE",
    b"i\xcc\x87",
    b"\xc4\xb0",
    b"\xf0\x9f\x94\x92",
    b"\xf0\x9f\x94\x93",
    b"\xe2\x80\xae",
    b"\xef\xbb\xbf",
    b"\xc2\xa0",
    b"\xc0\x80",
    b"\xff",
    b"\xff\xff",
    b"\xfe",
    b"\x80",
    b"\xed\xa0\x80",
    b"\x1b[31m",
    b"\x7f",
    b"0",
    b"00",
    b"0x0",
    b"-1",
    b"1e3",
    b"1000",
    b"null",
    b"NULL",
    b"true",
    b"__proto__",
    b"con",
];

/// Holds all keys at once, and asserts that each is held by itself alone.
async fn assert_distinct(ctx: &Context, keys: &[LockKey]) {
    let backend = &ctx.backend().await;
    let request = &|key: &LockKey| LockRequest::new(Claim::mint(key.clone()), ctx.long());
    // All at once, so that they are held together for no longer than any store's ttl.
    let held = join_all(keys.iter().map(|key| async {
        let request = request(key);
        (take(&**backend, &request).await, request)
    }));
    let held = held.await;
    join_all(held.iter().map(|(lease, first)| async {
        refused(&**backend, &request(&first.claim.key)).await;
        assert_eq!(take(&**backend, first).await.token, lease.token);
    }))
    .await;
    // Releasing every second one frees those and no others.
    join_all(held.iter().step_by(2).map(|(_, first)| async {
        backend.unlock(&first.claim).await.unwrap();
    }))
    .await;
    join_all(held.iter().enumerate().map(|(n, (_, first))| async move {
        let again = request(&first.claim.key);
        if n % 2 == 0 {
            take(&**backend, &again).await;
            backend.unlock(&again.claim).await.unwrap();
        } else {
            refused(&**backend, &again).await;
            backend.unlock(&first.claim).await.unwrap();
        }
    }))
    .await;
}

async fn torturous_keys_are_all_different(ctx: &Context) {
    let keys: Vec<_> = TORTURE.iter().map(|name| ctx.key(name)).collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "the table has a name twice");
    assert_distinct(ctx, &keys).await;
}

async fn near_misses_are_all_different(ctx: &Context) {
    let base = "invoice/2024/0042";
    let mut names = BTreeSet::from([base.to_owned()]);
    for at in 0..base.len() {
        let (left, right) = base.split_at(at);
        names.insert(format!("{left}{}", &right[1..]));
        names.insert(format!("{left}0{right}"));
        names.insert(format!("{left}{}", right.to_uppercase()));
    }
    let keys: Vec<_> = names.iter().map(|name| ctx.key(name)).collect();
    assert_distinct(ctx, &keys).await;
}

async fn random_bytes_are_all_different(ctx: &Context) {
    let mut rng = ctx.rng();
    let mut names: BTreeSet<Vec<u8>> = BTreeSet::new();
    while names.len() < 60 {
        names.insert((0..rng.usize(1..40)).map(|_| rng.u8(..)).collect());
    }
    let keys: Vec<_> = names.iter().map(|name| ctx.key(name)).collect();
    assert_distinct(ctx, &keys).await;
}

async fn the_longest_keys_are_all_different(ctx: &Context) {
    let room = LockKey::MAX_LEN - ctx.prefix().len();
    let mut keys = Vec::new();
    for fill in *b"a%/\0\xff" {
        for last in *b"ab" {
            let mut name = vec![fill; room];
            name[room - 1] = last;
            keys.push(ctx.key(&name));
            let mut shorter = name.clone();
            shorter.pop();
            keys.push(ctx.key(shorter));
        }
    }
    keys.sort();
    keys.dedup();
    assert!(keys.iter().any(|key| key.as_bytes().len() == LockKey::MAX_LEN));
    assert_distinct(ctx, &keys).await;
}

async fn one_byte_keys_are_all_different(ctx: &Context) {
    let keys: Vec<_> = (0..=u8::MAX).map(|byte| ctx.key([byte])).collect();
    assert_distinct(ctx, &keys).await;
}

async fn every_key_is_listed_as_it_is(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut keys: Vec<_> = TORTURE.iter().map(|name| ctx.key(name)).collect();
    join_all(keys.iter().map(|key| async {
        take(&*backend, &LockRequest::new(Claim::mint(key.clone()), ctx.long())).await;
        let record = backend.admin().unwrap().inspect(key).await.unwrap().expect("a held lock has a record");
        assert_eq!(record.key, *key);
        assert_eq!(LockKey::from_escaped(&key.to_string()).unwrap(), *key, "the escaped form reads back");
    }))
    .await;
    let listed = backend.admin().unwrap().list(ctx.prefix().as_bytes(), None, 10_000).await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|record| record.key).collect();
    keys.sort();
    assert_eq!(listed, keys, "every key is listed once, as it is, in byte order");
}

async fn prefixes_match_bytes_and_nothing_else(ctx: &Context) {
    let backend = ctx.backend().await;
    let names: [&[u8]; 12] =
        [b"ab", b"abc", b"ab%", b"ab%c", b"ab_", b"abX", b"aB", b"AB", b"a", b"ab\xff", b"ab\xff\xff", b"b"];
    for name in names {
        take(&*backend, &ctx.request(name)).await;
    }
    for prefix in [&b"ab"[..], b"ab%", b"ab_", b"a", b"A", b"ab\xff", b"ab\xff\xff", b"", b"zzz"] {
        let full = [ctx.prefix().as_bytes(), prefix].concat();
        let listed = backend.admin().unwrap().list(&full, None, 100).await.unwrap();
        let listed: Vec<_> = listed.into_iter().map(|record| record.key).collect();
        let mut wanted: Vec<_> =
            names.iter().filter(|name| name.starts_with(prefix)).map(|name| ctx.key(name)).collect();
        wanted.sort();
        assert_eq!(listed, wanted, "prefix {:?}", String::from_utf8_lossy(prefix));
    }
}

async fn bad_keys_are_refused_before_any_io(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let long = vec![b'x'; LockKey::MAX_LEN + 1];
    let huge = vec![b'x'; 1 << 20];
    for bad in [Vec::new(), long, huge] {
        for result in [client.try_lock(&bad).await.err(), client.lock(&bad).await.err()] {
            let error = result.expect("the key is refused");
            assert_eq!(error.kind(), ErrorKind::InvalidKey);
            assert_eq!(error.effect(), distlock_core::Effect::None);
        }
    }
    assert_eq!(script.calls(distlock_core::Operation::TryLock), 0, "nothing was sent");
}

async fn spaced(ctx: &Context, name: &str) -> LockClient {
    let options = ClientOptions::default().namespace(Namespace::new(name).unwrap());
    LockClient::with_options(ctx.backend().await, options).unwrap()
}

async fn namespaces_keep_keys_apart(ctx: &Context) {
    let prefix = ctx.prefix();
    let names =
        [format!("{prefix}a"), format!("{prefix}a/b"), format!("{prefix}a%2Fb"), format!("{prefix}b")];
    let mut guards = Vec::new();
    for name in &names {
        let client = spaced(ctx, name).await;
        for key in ["job", "b/job", "/job"] {
            let guard = client.try_lock(key).await.unwrap();
            guards.push(
                guard.unwrap_or_else(|| panic!("`{key}` in `{name}` is shared with another namespace")),
            );
            assert!(client.try_lock(key).await.unwrap().is_none());
        }
    }
    for guard in guards {
        guard.unlock().await.unwrap();
    }
}

async fn a_namespace_shows_its_own_keys(ctx: &Context) {
    let client = spaced(ctx, &format!("{}a", ctx.prefix())).await;
    let other = spaced(ctx, &format!("{}ab", ctx.prefix())).await;
    let guard = client.lock("job").await.unwrap();
    let stranger = other.lock("other job").await.unwrap();
    assert_eq!(guard.key(), &LockKey::new("job").unwrap(), "the guard shows the caller's key");
    let listed = client.admin().unwrap().list(b"", None, 10).await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|record| record.key.to_string()).collect();
    assert_eq!(listed, ["job"]);
    let record = client.admin().unwrap().inspect(guard.key()).await.unwrap().unwrap();
    assert_eq!((record.key, record.holders[0].token), (guard.key().clone(), guard.token()));
    stranger.unlock().await.unwrap();
    guard.unlock().await.unwrap();
}

async fn a_namespace_counts_in_the_length(ctx: &Context) {
    let name = format!("{}n", ctx.prefix());
    let client = spaced(ctx, &name).await;
    let room = LockKey::MAX_LEN - Namespace::new(&name).unwrap().prefix().len();
    let guard = client.try_lock(vec![b'k'; room]).await.unwrap().expect("the longest key fits");
    let error = client.try_lock(vec![b'k'; room + 1]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidKey);
    guard.unlock().await.unwrap();
}

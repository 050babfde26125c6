//! What users import and connect to.

use distlock::{ErrorKind, LockOptions, WaitPolicy};

#[tokio::test]
async fn memory_is_always_there() {
    let client = distlock::connect("memory:").await.unwrap();
    let guard = client.lock("k").await.unwrap();
    let busy = client.lock_with("k", &LockOptions::default().wait(WaitPolicy::No)).await.unwrap_err();
    assert!(busy.is_wait_timeout());
    guard.unlock().await.unwrap();
    let other = distlock::connect("memory:").await.unwrap();
    assert!(client.try_lock("k").await.unwrap().is_some());
    assert!(other.try_lock("k").await.unwrap().is_some(), "each connection is a store of its own");
}

#[tokio::test]
async fn bad_urls_fail_with_advice() {
    for (url, kind, advice) in [
        ("", ErrorKind::InvalidUrl, "sqlite:locks.db"),
        ("mem:", ErrorKind::InvalidUrl, "memory:"),
        ("memory:?namepsace=x", ErrorKind::InvalidUrl, "did you mean `namespace`"),
        ("memory:?ttl=0s", ErrorKind::InvalidOptions, "too short"),
        ("memory:?ttl=forever", ErrorKind::InvalidUrl, "duration"),
    ] {
        let error = distlock::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error}");
        assert!(error.to_string().contains(advice), "{url}: {error}");
    }
}

#[cfg(not(feature = "sqlite"))]
#[tokio::test]
async fn a_store_whose_feature_is_off_is_named() {
    let error = distlock::connect("sqlite:locks.db").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FeatureDisabled);
    assert!(error.to_string().contains("`sqlite`") && error.to_string().contains("C compiler"), "{error}");
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn so_are_all_schemes_of_a_store() {
    for url in [
        "redis://h",
        "rediss://h",
        "valkey://h",
        "redis+unix:/run/redis.sock",
        "redis+sentinel://h/m",
        "redis+cluster://h",
    ] {
        let error = distlock::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FeatureDisabled, "{url}");
        assert!(error.to_string().contains("`redis`"), "{error}");
    }
}

#[cfg(not(feature = "etcd"))]
#[tokio::test]
async fn what_a_store_takes_to_be_built_is_named() {
    for url in ["etcd://h", "etcds://h"] {
        let error = distlock::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FeatureDisabled, "{url}");
        assert!(
            error.to_string().contains("`etcd`") && error.to_string().contains("libprotobuf-dev"),
            "{error}"
        );
    }
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn etcd_is_tried_and_its_absence_named() {
    let error = distlock::connect("etcd://me:secret@127.0.0.1:1,127.0.0.1:2?ttl=5s").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("etcd connect") && text.contains("127.0.0.1:") && !text.contains("secret"),
        "{text}"
    );
    let error = distlock::connect("etcd://h?shared_leese=30s").await.unwrap_err();
    assert!(error.to_string().contains("did you mean `shared_lease`"), "{error}");
}

#[cfg(all(feature = "etcd", not(feature = "tls")))]
#[tokio::test]
async fn encryption_of_etcd_that_is_off_is_named() {
    let error = distlock::connect("etcds://h").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FeatureDisabled);
    assert!(error.to_string().contains("`tls`"), "{error}");
}

#[cfg(all(feature = "redis", not(feature = "tls")))]
#[tokio::test]
async fn encryption_that_is_off_is_named() {
    for url in ["rediss://h", "valkeys://h", "rediss+sentinel://h/m", "rediss+cluster://h"] {
        let error = distlock::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FeatureDisabled, "{url}");
        assert!(error.to_string().contains("`tls`"), "{error}");
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn redis_is_tried_and_its_absence_named() {
    let error = distlock::connect("redis://me:secret@127.0.0.1:1?ttl=5s").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = format!("{error} {error:?}");
    assert!(text.contains("redis connect") && !text.contains("secret"), "{text}");
    let error = distlock::connect("redis://h?perfix=x").await.unwrap_err();
    assert!(error.to_string().contains("did you mean `prefix`"), "{error}");
}

#[cfg(not(feature = "zk"))]
#[tokio::test]
async fn zookeeper_that_is_off_is_named() {
    for url in ["zk://h", "zks://h?ca=/ca.pem"] {
        let error = distlock::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FeatureDisabled, "{url}");
        assert!(error.to_string().contains("`zk`"), "{error}");
    }
}

#[cfg(feature = "zk")]
#[tokio::test]
async fn zookeeper_is_tried_and_its_absence_named() {
    let error = distlock::connect("zk://me:secret@127.0.0.1:1?connect_timeout=200ms").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = format!("{error} {error:?}");
    assert!(text.contains("zk connect") && !text.contains("secret"), "{text}");
    let error = distlock::connect("zk://h?sesion_timeout=5s").await.unwrap_err();
    assert!(error.to_string().contains("did you mean `session_timeout`"), "{error}");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn two_clients_of_one_file_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let (one, two) = (distlock::connect(&url).await.unwrap(), distlock::connect(&url).await.unwrap());
    let guard = one.lock("k").await.unwrap();
    assert!(two.try_lock("k").await.unwrap().is_none());
    let token = guard.token();
    guard.unlock().await.unwrap();
    assert!(two.try_lock("k").await.unwrap().unwrap().token() > token);
}

/// Whatever store it is: an option that does not exist is refused before any I/O, with the right name.
#[tokio::test]
async fn every_misspelt_option_is_refused_with_the_right_one() {
    let registry = distlock::registry();
    for driver in registry.drivers() {
        let options = distlock::COMMON_OPTIONS.iter().chain(driver.options());
        for name in options.map(|option| option.name).filter(|name| name.len() >= 5) {
            let misspelt = format!("{}{}", &name[..2], &name[3..]);
            for scheme in driver.schemes() {
                let error = registry.connect(&format!("{scheme}:x?{misspelt}=1")).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{scheme} {misspelt}: {error}");
                let advice = format!("did you mean `{name}`?");
                assert!(error.to_string().contains(&advice), "{scheme} {misspelt}: {error}");
            }
        }
        let scheme = driver.schemes()[0];
        let error = registry.connect(&format!("{scheme}:x?xyzzy=1")).await.unwrap_err();
        assert!(error.to_string().contains("`xyzzy`") && error.to_string().contains("ttl"), "{error}");
    }
}

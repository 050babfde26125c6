//! What stands in the store.

use std::time::Duration;

use distlock_core::{ErrorKind, LockBackend, OwnerId};
use distlock_testbed::rounds;

use crate::support::{Server, key, number, request, run, take, tests};

const LONG: Duration = Duration::from_secs(60);

tests! {
    b029_b079_a_record_tells_its_owner_and_ends_by_itself,
    b115_idle_keys_leave_nothing_for_ever,
    b118_a_record_by_another_hand_is_told_and_can_be_cleared,
}

async fn b029_b079_a_record_tells_its_owner_and_ends_by_itself() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let lease = take(&backend, &request("k", LONG)).await;
    let mut raw = server.raw().await;
    let owner: String = redis::from_redis_value(run(&mut raw, "HGET distlock:lock:k owner").await).unwrap();
    assert_eq!(owner.parse::<OwnerId>().unwrap(), lease.claim.owner);
    let (deadline, now) = (number(&mut raw, "HGET distlock:lock:k deadline").await, lease.token.get());
    let left = deadline - i64::try_from(now).unwrap();
    assert!(left > 0 && left <= i64::try_from(LONG.as_micros()).unwrap() + 10_000_000, "{left}");
    assert!(number(&mut raw, "PTTL distlock:lock:k").await > 0);
    backend.unlock(&lease.claim).await.unwrap();
    assert!(number(&mut raw, "PTTL distlock:lock:k").await > 0, "also when nobody holds it");
}

async fn b115_idle_keys_leave_nothing_for_ever() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let mut raw = server.raw().await;
    let mut last = Vec::new();
    for n in 0..rounds(1000) {
        let lease = take(&backend, &request(&format!("k{n}"), LONG)).await;
        if n % 2 == 0 {
            backend.unlock(&lease.claim).await.unwrap();
        }
        last.push(lease.token);
    }
    // The idle period, a day, goes by.
    let pass = "local day = 2 * 86400000 local left = 0
        for _, key in ipairs(redis.call('KEYS', '*')) do
          local ttl = redis.call('PTTL', key)
          if ttl < 0 then left = left + 1 else redis.call('PEXPIRE', key, ttl - day) end
        end
        return left";
    let endless: i64 = redis::cmd("EVAL").arg(pass).arg(0).query_async(&mut raw).await.unwrap();
    assert_eq!((endless, number(&mut raw, "DBSIZE").await), (0, 0));
    for (n, last) in last.into_iter().enumerate() {
        assert!(take(&backend, &request(&format!("k{n}"), LONG)).await.token > last);
    }
}

async fn b118_a_record_by_another_hand_is_told_and_can_be_cleared() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let mut raw = server.raw().await;
    let lease = take(&backend, &request("k", LONG)).await;
    backend.unlock(&lease.claim).await.unwrap();
    let owner = OwnerId::random();
    for foreign in
        ["SET distlock:lock:k someone".to_owned(), format!("HSET distlock:lock:k token 1 owner {owner}")]
    {
        run(&mut raw, "DEL distlock:lock:k").await;
        run(&mut raw, &foreign).await;
        let error = backend.try_lock(&request("k", LONG)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{foreign}");
        assert!(error.to_string().contains("force-unlock"), "{error}");
        assert_eq!(backend.admin().unwrap().inspect(&key("k")).await.unwrap_err().kind(), ErrorKind::Corrupt);
        backend.admin().unwrap().force_unlock(&key("k")).await.unwrap();
        assert!(take(&backend, &request("k", LONG)).await.token > lease.token);
        assert!(number(&mut raw, "PTTL distlock:lock:k").await > 0);
    }
}

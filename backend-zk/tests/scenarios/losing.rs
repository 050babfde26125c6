//! Locks that are lost, and must be known to be.

use std::time::Duration;

use distlock_conformance::Way;
use distlock_core::{LockBackend, LockClient, LockOptions, LostReason, StoreUrl};
use distlock_zk::ZkBackend;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::{
    behind_proxy, client, connect, eventually, folder, refused, request, shared, take, tests,
};

tests! {
    b028_a_try_cut_off_during_clean_up_leaves_no_phantom,
    b067_a_session_that_ends_in_silence_is_noticed_and_replaced,
    b084_another_session_behind_the_same_address_holds_nothing,
}

const LONG: Duration = Duration::from_secs(5);

async fn b028_a_try_cut_off_during_clean_up_leaves_no_phantom() {
    let folder = folder();
    let (proxy, url) = behind_proxy(shared(), &folder, "session_timeout=10s");
    let (holder, third, tried) =
        (connect(&format!("zk://{}{folder}", shared())).await, client(&folder).await, connect(&url).await);
    for round in 0..30_u64 {
        let held = request("k", LONG);
        take(&*holder, &held).await;
        let attempt = request("k", LONG);
        let (outcome, ()) = tokio::join!(tried.try_lock(&attempt), async {
            tokio::time::sleep(Duration::from_micros(round * 150)).await;
            proxy.reset().await;
        });
        if outcome.is_err() {
            // As the client does: it withdraws until it is answered.
            eventually("the withdrawal is answered", async || tried.unlock(&attempt.claim).await.is_ok())
                .await;
        }
        holder.unlock(&held.claim).await.unwrap();
        let options = LockOptions::default().wait(distlock_core::WaitPolicy::UpTo(LONG));
        third.lock_with("k", &options).await.expect("nobody is in front").unlock().await.unwrap();
    }
}

async fn b067_a_session_that_ends_in_silence_is_noticed_and_replaced() {
    let folder = folder();
    let (proxy, url) = behind_proxy(shared(), &folder, "session_timeout=2s");
    let client = LockClient::new(connect(&url).await);
    let (one, two) = (client.lock("one").await.unwrap(), client.lock("two").await.unwrap());
    for way in [Way::ToServer, Way::ToClient] {
        proxy.silence(way);
    }
    let limit = Duration::from_secs(10);
    for guard in [&one, &two] {
        tokio::time::timeout(limit, guard.lost()).await.expect("the loss is announced");
        assert!(!guard.is_valid());
    }
    // Until the servers have ended the session.
    let other = crate::support::client(&folder).await;
    for name in ["one", "two"] {
        let options = LockOptions::default().wait(distlock_core::WaitPolicy::UpTo(limit));
        other.lock_with(name, &options).await.unwrap().unlock().await.unwrap();
    }
    proxy.pass();
    let options = LockOptions::default().wait(distlock_core::WaitPolicy::UpTo(limit));
    let again = client.lock_with("one", &options).await.expect("a new session is opened by itself");
    assert!(again.token() > one.token());
    assert!(!one.is_valid());
}

/// Hands connections on, and from some moment on takes the session out of what clients ask for.
async fn forgetful(target: String, forgets: watch::Receiver<bool>, resets: watch::Receiver<u32>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let (target, forgets, mut resets) = (target.clone(), forgets.clone(), resets.clone());
            tokio::spawn(async move {
                let mut server = TcpStream::connect(target).await.unwrap();
                // Length, version, last transaction, time-out, session.
                let mut opening = [0; 4 + 4 + 8 + 4 + 8];
                if client.read_exact(&mut opening).await.is_err() {
                    return;
                }
                if *forgets.borrow() {
                    opening[20..].fill(0);
                }
                server.write_all(&opening).await.unwrap();
                resets.mark_unchanged();
                tokio::select! {
                    _ = copy_bidirectional(&mut client, &mut server) => {}
                    _ = resets.changed() => {}
                }
            });
        }
    });
    address
}

async fn b084_another_session_behind_the_same_address_holds_nothing() {
    let folder = folder();
    let ((forget, forgets), (reset, resets)) = (watch::channel(false), watch::channel(0));
    let address = forgetful(shared().to_owned(), forgets, resets).await;
    let url = format!("zk://{address}{folder}?session_timeout=4s");
    let client = LockClient::new(std::sync::Arc::new(
        ZkBackend::from_url(&mut StoreUrl::parse(&url).unwrap()).await.unwrap(),
    ));
    let guard = client.lock("k").await.unwrap();
    forget.send(true).unwrap();
    reset.send(1).unwrap();
    let reason =
        tokio::time::timeout(Duration::from_secs(20), guard.lost()).await.expect("the loss is announced");
    assert_eq!(reason, LostReason::SessionClosed);
    assert!(!guard.is_valid());
    let other = crate::support::backend(&folder).await;
    refused(&*other, &request("k", LONG)).await;
    eventually("the client works on", async || client.try_lock("other").await.is_ok()).await;
}

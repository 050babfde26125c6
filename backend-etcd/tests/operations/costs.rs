//! How many requests an operation takes.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{LockBackend, LockClient, LockOptions};
use distlock_etcd::EtcdBackend;

use crate::support::{Server, busy, eventually, queued, records, request, take, tests};

tests! {
    an_uncontended_lock_is_one_request_once_there_is_a_lease_and_its_release_another,
    with_a_shared_lease_a_lock_is_one_request_and_its_release_another,
    a_woken_waiter_looks_once,
    a_hand_over_in_a_herd_costs_four_requests_at_most,
}

const TTL: Duration = Duration::from_secs(60);

async fn cost(backend: &EtcdBackend, work: impl Future<Output = ()>) -> u64 {
    let before = backend.commands_sent().unwrap();
    work.await;
    backend.commands_sent().unwrap() - before
}

async fn pair(backend: &EtcdBackend) -> (u64, u64) {
    let request = request("key", TTL);
    let taking = cost(backend, async {
        take(backend, &request).await;
    });
    let taken = taking.await;
    let released = cost(backend, async {
        backend.unlock(&request.claim).await.unwrap();
    });
    (taken, released.await)
}

async fn an_uncontended_lock_is_one_request_once_there_is_a_lease_and_its_release_another() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    assert_eq!(pair(&backend).await, (2, 1));
    for _ in 0..5 {
        assert_eq!(pair(&backend).await, (1, 1));
    }
    let mut raw = server.raw().await;
    assert_eq!(raw.leases().await.unwrap().leases().len(), 1, "the lease is kept for the next lock");
    backend.close().await.unwrap();
    assert!(raw.leases().await.unwrap().leases().is_empty(), "and not for longer");
}

async fn with_a_shared_lease_a_lock_is_one_request_and_its_release_another() {
    let server = Server::start(&[]).await;
    let backend = EtcdBackend::connect(server.config().shared_lease(TTL)).await.unwrap();
    pair(&backend).await;
    for _ in 0..5 {
        assert_eq!(pair(&backend).await, (1, 1));
    }
}

async fn a_woken_waiter_looks_once() {
    let server = Server::start(&[]).await;
    let (one, two) = (server.backend().await, server.backend().await);
    let (holder, waiter) = (request("key", TTL), queued("key", TTL));
    take(&one, &holder).await;
    let joining = cost(&two, async {
        busy(&two, &waiter).await;
    });
    assert_eq!(joining.await, 3, "a lease, a try and a place");
    one.unlock(&holder.claim).await.unwrap();
    let taking = cost(&two, async {
        take(&two, &waiter).await;
    });
    assert_eq!(taking.await, 1);
}

/// How many requests a hand-over may cost, and how many more for what happens once a second.
const MOST: f64 = 4.0;

async fn a_hand_over_in_a_herd_costs_four_requests_at_most() {
    const HERD: usize = 256;
    let server = Server::start(&[]).await;
    // All of one client, and spread over four.
    for clients in [1, 4] {
        let mut backends = Vec::new();
        for _ in 0..clients {
            backends.push(Arc::new(server.backend().await));
        }
        let client =
            |backend: &Arc<EtcdBackend>| LockClient::new(Arc::clone(backend) as Arc<dyn LockBackend>);
        let of: Vec<_> = backends.iter().map(client).collect();
        let options = LockOptions::default().ttl(TTL);
        let gate = of[0].lock_with("herd", &options).await.unwrap();
        let mut waiters = Vec::new();
        for n in 0..HERD {
            let (client, options) = (of[n % clients].clone(), options.clone());
            let mut waiter = Box::pin(async move {
                client.lock_with("herd", &options).await.unwrap().unlock().await.unwrap();
            });
            // Polled once it stands in its client's line, or is on its way to the store as that line's head.
            assert!(futures_util::poll!(&mut waiter).is_pending());
            waiters.push(tokio::spawn(waiter));
        }
        // The holder's own client needs no second place.
        let mut raw = server.raw().await;
        eventually("every client has a place", async || records(&mut raw, "herd").await.len() == clients)
            .await;
        let sent = || backends.iter().map(|backend| backend.commands_sent().unwrap()).sum::<u64>();
        let (before, begun) = (sent(), std::time::Instant::now());
        gate.unlock().await.unwrap();
        for waiter in waiters {
            waiter.await.unwrap();
        }
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let each = (sent() - before) as f64 / HERD as f64;
        eprintln!(
            "{HERD} waiters of {clients} clients: {each:.2} requests a hand-over, {:?} in all",
            begun.elapsed()
        );
        // Whoever waits asks once a second, whatever happens.
        let polls = (begun.elapsed().as_secs_f64() + 1.0) * 3.0 * f64::from(u32::try_from(clients).unwrap());
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let most = MOST + polls / HERD as f64;
        assert!(each <= most, "{each} requests, and {most} would be all right");
    }
}

//! Rule 6, the herd: contenders of one client stand in line, and only its head asks the store.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock_core::{
    ErrorKind, LockBackend, LockClient, LockOptions, LostReason, Operation, Queueing, Release,
};

use crate::rig::{kind, ms, nine, rig, secs, settle, until};

fn spawn_contender(
    client: &LockClient,
    order: &Arc<Mutex<Vec<usize>>>,
    n: usize,
    options: LockOptions,
) -> tokio::task::JoinHandle<()> {
    let (client, order) = (client.clone(), Arc::clone(order));
    tokio::spawn(async move {
        let guard = client.lock_with("k", &options).await.unwrap();
        order.lock().unwrap().push(n);
        tokio::time::sleep(ms(1)).await;
        guard.unlock().await.unwrap();
    })
}

#[tokio::test(start_paused = true)]
async fn a_herd_is_served_in_order_at_two_commands_a_turn() {
    let (store, spy, client) = rig();
    let order = Arc::new(Mutex::new(Vec::new()));
    let first = client.lock_with("k", &nine()).await.unwrap();
    let mut herd = Vec::new();
    for n in 0..256 {
        herd.push(spawn_contender(&client, &order, n, nine()));
        settle().await;
    }
    spy.forget();
    first.unlock().await.unwrap();
    for contender in herd {
        contender.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..256).collect::<Vec<_>>());
    let (tries, unlocks, hand_overs) =
        (spy.count(Operation::TryLock), spy.count(Operation::Unlock), spy.count(Operation::HandOver));
    let commands = tries + unlocks + hand_overs;
    assert!(commands <= 2 * 257, "{tries} tries, {unlocks} unlocks, {hand_overs} hand-overs");
    assert!(hand_overs > unlocks, "a local hand-off takes one command, not two");
    until("nothing is left", || store.records() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn local_hand_overs_give_other_clients_their_turn() {
    let (store, _, client) = rig();
    let other = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let order = Arc::new(Mutex::new(Vec::new()));
    let first = client.lock_with("k", &nine()).await.unwrap();
    let mut herd: Vec<_> = (0..100).map(|n| spawn_contender(&client, &order, n, nine())).collect();
    settle().await;
    herd.push(spawn_contender(&other, &order, 1000, nine()));
    settle().await;
    first.unlock().await.unwrap();
    for contender in herd {
        contender.await.unwrap();
    }
    let place = order.lock().unwrap().iter().position(|n| *n == 1000).unwrap();
    assert!(place <= 17, "the other client came {place}th");
}

/// How many holds of the client, each this long, another client waits for.
async fn holds_before_another(hold: Duration) -> usize {
    let (store, _, client) = rig();
    let other = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let order = Arc::new(Mutex::new(Vec::new()));
    let first = client.lock_with("k", &nine()).await.unwrap();
    let herd: Vec<_> = (0..40)
        .map(|n| {
            let (client, order) = (client.clone(), Arc::clone(&order));
            tokio::spawn(async move {
                let guard = client.lock_with("k", &nine()).await.unwrap();
                order.lock().unwrap().push(n);
                tokio::time::sleep(hold).await;
                guard.unlock().await.unwrap();
            })
        })
        .collect();
    settle().await;
    let other = spawn_contender(&other, &order, 1000, nine());
    settle().await;
    first.unlock().await.unwrap();
    for contender in herd {
        contender.await.unwrap();
    }
    other.await.unwrap();
    order.lock().unwrap().iter().position(|n| *n == 1000).unwrap()
}

#[tokio::test(start_paused = true)]
async fn long_holds_are_handed_over_less_often_in_a_row() {
    assert_eq!(holds_before_another(Duration::from_millis(1)).await, 16, "bounded by number");
    // The first hand-over begins the row; two more are over before a tenth of a second is.
    assert_eq!(holds_before_another(Duration::from_millis(45)).await, 3, "bounded by time");
    assert_eq!(holds_before_another(Duration::from_secs(1)).await, 1, "bounded by time");
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_falls_short_of_replicas_frees_the_lock_and_serves_the_next() {
    let (store, spy, client) = rig();
    let order = Arc::new(Mutex::new(Vec::new()));
    let first = client.lock_with("k", &nine()).await.unwrap();
    let waiters: Vec<_> = (0..3).map(|n| spawn_contender(&client, &order, n, nine())).collect();
    settle().await;
    spy.unreplicated.store(1, Ordering::Relaxed);
    assert_eq!(
        first.unlock().await.unwrap(),
        Release::Released,
        "it was given up, whatever the next one got"
    );
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(spy.unreplicated.load(Ordering::Relaxed), 0, "that hand-over was tried");
    assert_eq!(order.lock().unwrap().len(), 3);
    until("nothing is left", || store.records() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn strict_queueing_serves_all_clients_in_the_order_of_their_arrival() {
    let (store, _, client) = rig();
    let other = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let order = Arc::new(Mutex::new(Vec::new()));
    let first = client.lock_with("k", &nine()).await.unwrap();
    let mut contenders = Vec::new();
    for n in 0..20 {
        let client = if n % 3 == 0 { &other } else { &client };
        contenders.push(spawn_contender(client, &order, n, nine().queue(Queueing::Strict)));
        settle().await;
    }
    first.unlock().await.unwrap();
    for contender in contenders {
        contender.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn those_who_leave_the_line_hold_nobody_up() {
    let (_, _, client) = rig();
    let order = Arc::new(Mutex::new(Vec::new()));
    let first = client.lock_with("k", &nine()).await.unwrap();
    let herd: Vec<_> = (0..200).map(|n| spawn_contender(&client, &order, n, nine())).collect();
    settle().await;
    for contender in herd.iter().step_by(2) {
        contender.abort();
    }
    first.unlock().await.unwrap();
    for contender in herd.into_iter().skip(1).step_by(2) {
        contender.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..200).skip(1).step_by(2).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_lost_its_lock_lets_its_own_client_go_on() {
    let (store, _, client) = rig();
    let victim = client.lock_with("k", &nine()).await.unwrap();
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.lock_with("k", &nine()).await.unwrap() }
    });
    settle().await;
    store.expire_now(victim.key());
    let next = waiter.await.unwrap();
    assert!(next.token() > victim.token() && !victim.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_taken_away_is_not_handed_over() {
    let (_, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.lock_with("k", &nine()).await.unwrap() }
    });
    settle().await;
    client.admin().unwrap().force_unlock(guard.key()).await.unwrap();
    assert_eq!(guard.unlock().await.unwrap(), Release::NotHeld(LostReason::Expired));
    let next = waiter.await.unwrap();
    assert_eq!(next.unlock().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn too_many_waiters_are_refused() {
    let (store, _, _) = rig();
    let options = distlock_core::ClientOptions::default().max_waiters(2);
    let client = LockClient::with_options(store, options).unwrap();
    let _held = client.lock_with("k", &nine()).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let herd: Vec<_> = (0..2).map(|n| spawn_contender(&client, &order, n, nine())).collect();
    settle().await;
    assert_eq!(kind(client.lock_with("k", &nine()).await), ErrorKind::Overloaded);
    herd.iter().for_each(tokio::task::JoinHandle::abort);
    settle().await;
    let patient = tokio::time::timeout(secs(1), client.lock_with("k", &nine())).await;
    assert!(patient.is_err(), "there is room again");
}

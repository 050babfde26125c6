//! What the core costs by itself, on the memory store.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "benchmarks measure with real time and fail by panicking"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use distlock::{Clock, FencingToken, LockClient, LockGuard, LockKey, LockOptions, MemoryBackend, OwnerId};
use tokio::runtime::Runtime;

const KEY: &str = "invoice/42";
const HELD: [usize; 3] = [10, 1_000, 100_000];

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn client() -> LockClient {
    LockClient::new(Arc::new(MemoryBackend::new()))
}

fn pairs(c: &mut Criterion) {
    let runtime = runtime();
    c.bench_function("lock and unlock", |b| {
        let client = client();
        b.iter_custom(|times| {
            runtime.block_on(async {
                let started = Instant::now();
                for _ in 0..times {
                    client.lock(KEY).await.unwrap().unlock().await.unwrap();
                }
                started.elapsed()
            })
        });
    });
    c.bench_function("lock and drop", |b| {
        let client = client();
        b.iter_custom(|times| {
            runtime.block_on(async {
                let started = Instant::now();
                for _ in 0..times {
                    drop(client.lock(KEY).await.unwrap());
                }
                started.elapsed()
            })
        });
    });
    c.bench_function("tokio mutex, lock and unlock", |b| {
        let mutex = tokio::sync::Mutex::new(());
        b.iter_custom(|times| {
            runtime.block_on(async {
                let started = Instant::now();
                for _ in 0..times {
                    drop(black_box(mutex.lock().await));
                }
                started.elapsed()
            })
        });
    });
}

fn busy(c: &mut Criterion) {
    let runtime = runtime();
    let store = Arc::new(MemoryBackend::new());
    // Two clients, so that the answer comes from the store and not from the line in the client.
    let (holder, other) = (LockClient::new(Arc::<MemoryBackend>::clone(&store)), LockClient::new(store));
    let _guard = runtime.block_on(holder.lock(KEY)).unwrap();
    c.bench_function("try a busy lock", |b| {
        b.iter_custom(|times| {
            runtime.block_on(async {
                let started = Instant::now();
                for _ in 0..times {
                    assert!(other.try_lock(KEY).await.unwrap().is_none());
                }
                started.elapsed()
            })
        });
    });
}

/// Passes the lock on `times` times between the tasks of each client in turn.
async fn pass_round(clients: [LockClient; 2], times: u64) -> Duration {
    let started = Instant::now();
    let mut guard = clients[0].lock(KEY).await.unwrap();
    for n in 1..=times {
        let next = clients[usize::from(n % 2 == 1)].clone();
        let waiter = tokio::spawn(async move { next.lock(KEY).await.unwrap() });
        // Once it has run, the waiter stands in its queue.
        tokio::task::yield_now().await;
        guard.unlock().await.unwrap();
        guard = waiter.await.unwrap();
    }
    let elapsed = started.elapsed();
    guard.unlock().await.unwrap();
    elapsed
}

fn hand_off(c: &mut Criterion) {
    let runtime = runtime();
    c.bench_function("hand-off inside a client", |b| {
        let client = client();
        b.iter_custom(|times| runtime.block_on(pass_round([client.clone(), client.clone()], times)));
    });
    c.bench_function("wake-up of another client", |b| {
        let store = Arc::new(MemoryBackend::new());
        let clients = [LockClient::new(Arc::<MemoryBackend>::clone(&store)), LockClient::new(store)];
        b.iter_custom(|times| runtime.block_on(pass_round(clients.clone(), times)));
    });
}

fn renewal(c: &mut Criterion) {
    let mut group = c.benchmark_group("renewal of all held locks");
    for locks in HELD {
        let runtime = runtime();
        let (clock, hand) = Clock::manual();
        let client = LockClient::new(Arc::new(MemoryBackend::with_clock(clock)));
        let guards = runtime.block_on(held(&client, locks));
        group.bench_function(BenchmarkId::from_parameter(locks), |b| {
            b.iter_custom(|times| {
                runtime.block_on(async {
                    let mut elapsed = Duration::ZERO;
                    for _ in 0..times {
                        let before = guards[0].valid_until();
                        let other = client.lock("other").await.unwrap();
                        hand.advance(guards[0].ttl() / 3);
                        let started = Instant::now();
                        // Wakes the background task, which then sees by the clock that all are due.
                        drop(other);
                        for guard in &guards {
                            while guard.valid_until() <= before {
                                tokio::task::yield_now().await;
                            }
                        }
                        elapsed += started.elapsed();
                    }
                    elapsed
                })
            });
        });
        drop(guards);
    }
}

async fn held(client: &LockClient, locks: usize) -> Vec<LockGuard> {
    let mut guards = Vec::with_capacity(locks);
    for n in 0..locks {
        guards.push(client.lock(format!("held/{n}")).await.unwrap());
    }
    guards
}

/// What one lock costs that is due while so many others are not: the same, however many there are.
fn one_renewal(c: &mut Criterion) {
    let mut group = c.benchmark_group("renewal of the one that is due among held locks");
    for locks in HELD {
        let runtime = runtime();
        let (clock, hand) = Clock::manual();
        let client = LockClient::new(Arc::new(MemoryBackend::with_clock(clock)));
        let day = LockOptions::default().ttl(Duration::from_secs(86_400));
        let others = runtime.block_on(async {
            let mut others = Vec::with_capacity(locks);
            for n in 0..locks {
                others.push(client.lock_with(format!("held/{n}"), &day).await.unwrap());
            }
            others
        });
        let brief = LockOptions::default().ttl(Duration::from_millis(30));
        let due = runtime.block_on(client.lock_with("due", &brief)).unwrap();
        group.bench_function(BenchmarkId::from_parameter(locks), |b| {
            b.iter_custom(|times| {
                runtime.block_on(async {
                    let mut elapsed = Duration::ZERO;
                    for _ in 0..times {
                        let before = due.valid_until();
                        let other = client.lock_with("other", &day).await.unwrap();
                        hand.advance(due.ttl() / 3);
                        let started = Instant::now();
                        drop(other);
                        while due.valid_until() <= before {
                            tokio::task::yield_now().await;
                        }
                        elapsed += started.elapsed();
                    }
                    elapsed
                })
            });
        });
        drop((due, others));
    }
}

fn values(c: &mut Criterion) {
    let key = LockKey::new(KEY).unwrap();
    let token = FencingToken::new(1_764_500_000_000_000).unwrap();
    c.bench_function("make a key", |b| b.iter(|| LockKey::new(black_box(KEY)).unwrap()));
    c.bench_function("write a key", |b| b.iter(|| black_box(&key).to_string()));
    c.bench_function("write and read a token", |b| {
        b.iter(|| black_box(token).to_string().parse::<FencingToken>().unwrap());
    });
    c.bench_function("mint an owner", |b| b.iter(OwnerId::random));
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = pairs, busy, hand_off, renewal, one_renewal, values
}
criterion_main!(benches);

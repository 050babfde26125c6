//! Metrics and health over HTTP, for as long as a command runs.

mod pages;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use distlock::LockClient;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::pages::Pages;
use crate::exit::Failure;

/// Upper bounds of the buckets of every time: of operations in a store close by up to jobs that hold a lock for hours.
const BUCKETS: [f64; 16] =
    [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0];
/// So many are served at once; others wait to be accepted.
const MOST_CONNECTIONS: usize = 16;
/// A connection that takes longer is closed.
const LONGEST: Duration = Duration::from_secs(10);
/// The same for what it asks.
const LONGEST_REQUEST: Duration = Duration::from_secs(5);
/// How often times that were recorded are put into their buckets, should nobody ask for them.
const UPKEEP: Duration = Duration::from_secs(5);
/// The pause after a connection could not be accepted, as when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// An address that listens, and the recorder of this process.
#[derive(Debug)]
pub(crate) struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    recorded: PrometheusHandle,
}

/// Serves until it is dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    _task: JoinSet<()>,
}

impl Endpoint {
    /// Listens, and records from now on: to be called before the client is made.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let cannot = |error| {
            Failure::system(&format!("can't listen on {address}; give another --metrics-listen"), error)
        };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let recorded = PrometheusBuilder::new()
            .set_buckets(&BUCKETS)
            .and_then(PrometheusBuilder::install_recorder)
            .map_err(|error| Failure::system("can't record metrics", error))?;
        distlock::describe_metrics();
        Ok(Self { listener, address, recorded })
    }

    /// Where it listens: with the port that the system chose, if that was left to it.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the metrics and the client's health.
    pub(crate) fn serve(self, client: &LockClient) -> Serving {
        let pages = Pages::of(client.clone(), self.recorded);
        let mut task = JoinSet::new();
        task.spawn(accept(self.listener, pages));
        Serving { _task: task }
    }
}

async fn accept(listener: TcpListener, pages: Pages) {
    let mut connections = JoinSet::new();
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(answer(stream, pages.clone()));
                }
                Err(_) => sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
            _ = upkeep.tick() => pages.upkeep(),
        }
    }
}

/// Answers one request. Trouble with a connection is that of whoever made it.
async fn answer(stream: TcpStream, pages: Pages) {
    let service = service_fn(|request| {
        let pages = pages.clone();
        async move { Ok::<_, Infallible>(pages.answer(request.method(), request.uri().path()).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_REQUEST)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = connection => {}
        () = sleep(LONGEST) => {}
    }
}

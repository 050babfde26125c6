//! Faults of a store that is reached over TCP.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{LockKey, Operation};

use crate::faults::{FaultAbilities, Faults};
use crate::proxy::{Proxy, Way};
use crate::server::{Data, Server};

type Url = Box<dyn Fn(&[String]) -> String + Send + Sync>;
type Start = Box<dyn Fn() -> Result<Arc<dyn Server>, String> + Send + Sync>;
type Done = Pin<Box<dyn Future<Output = ()> + Send>>;
type Expire = Box<dyn Fn(LockKey) -> Done + Send + Sync>;
type Prune = Box<dyn Fn() -> Done + Send + Sync>;

/// [`Faults`] for a store that is reached over TCP: a [`Proxy`] in front of each of its addresses,
/// and, for a [`Server`] that may be hurt, kills, restarts and pauses.
///
/// A subject keeps one, answers [`Subject::url`](crate::Subject::url),
/// [`Subject::available`](crate::Subject::available) and [`Subject::faults`](crate::Subject::faults)
/// from it, and nothing is started before one of the latter two is used. Clients at `url` go past the proxies; those
/// of the cases that break the network go through them.
///
/// A store whose servers tell clients to go to other addresses (Redis Sentinel and Cluster, etcd's
/// member list) leads them past the proxies, unless its servers announce the proxies' own.
pub struct NetworkFaults {
    addresses: Vec<String>,
    url: Url,
    start: Option<Start>,
    expire: Option<Expire>,
    prune: Option<Prune>,
    doubles: bool,
    tokens_outlive_data: bool,
    holds_outlive_restart: bool,
    paused: AtomicBool,
    started: OnceLock<Result<Started, String>>,
}

struct Started {
    proxies: Vec<Proxy>,
    server: Option<Arc<dyn Server>>,
}

impl fmt::Debug for NetworkFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkFaults").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl NetworkFaults {
    /// Faults for the store at these addresses (`host:port`). `url` writes the store's URL with other
    /// addresses, as many and in the same order.
    pub fn new(
        addresses: impl IntoIterator<Item = impl Into<String>>,
        url: impl Fn(&[String]) -> String + Send + Sync + 'static,
    ) -> Self {
        Self {
            addresses: addresses.into_iter().map(Into::into).collect(),
            url: Box::new(url),
            start: None,
            expire: None,
            prune: None,
            doubles: false,
            tokens_outlive_data: false,
            holds_outlive_restart: false,
            paused: AtomicBool::new(false),
            started: OnceLock::new(),
        }
    }

    /// Has the store's server killed, paused and restarted, on its data and without. `start` is called
    /// once, before the first case, and not in the further processes that the suite starts.
    #[must_use]
    pub fn server<S: Server>(
        mut self,
        start: impl Fn() -> Result<S, String> + Send + Sync + 'static,
    ) -> Self {
        self.start = Some(Box::new(move || Ok(Arc::new(start()?))));
        self
    }

    /// Has leases ended at will.
    #[must_use]
    pub fn expire<F>(mut self, expire: impl Fn(LockKey) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.expire = Some(Box::new(move |key| Box::pin(expire(key))));
        self
    }

    /// Has idle keys forgotten at will, as far as the store is allowed to forget them.
    #[must_use]
    pub fn prune<F>(mut self, prune: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.prune = Some(Box::new(move || Box::pin(prune())));
        self
    }

    /// Has requests doubled on the wire. Only for protocols in which a request means the same on a
    /// fresh connection; see [`Proxy::duplicate`].
    #[must_use]
    pub const fn doubles(mut self) -> Self {
        self.doubles = true;
        self
    }

    /// Says that tokens go on rising when the server lost its data, because a clock is their floor.
    #[must_use]
    pub const fn tokens_outlive_data(mut self) -> Self {
        self.tokens_outlive_data = true;
        self
    }

    /// Says that held locks survive a restart as the server is set up, although the backend does not
    /// promise that of every server.
    #[must_use]
    pub const fn holds_outlive_restart(mut self) -> Self {
        self.holds_outlive_restart = true;
        self
    }

    /// The store's URL, past the proxies: what [`Subject::url`](crate::Subject::url) is to say.
    #[must_use]
    pub fn url(&self) -> String {
        (self.url)(&self.addresses)
    }

    /// Starts the server, if there is one to start, and the proxies: what
    /// [`Subject::available`](crate::Subject::available) is to call. A store that is started by
    /// somebody else has to be asked in addition.
    ///
    /// # Errors
    /// What could not be started, and why.
    pub fn available(&self) -> Result<(), String> {
        self.started.get_or_init(|| self.start()).as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// The proxies, in the addresses' order, for cases of your own.
    ///
    /// # Panics
    /// Something could not be started.
    pub fn proxies(&self) -> &[Proxy] {
        &self.started().proxies
    }

    fn start(&self) -> Result<Started, String> {
        let server = self.start.as_ref().map(|start| start()).transpose()?;
        let proxy = |address: &String| {
            Proxy::start(address.as_str()).map_err(|error| format!("no proxy for {address}: {error}"))
        };
        Ok(Started { proxies: self.addresses.iter().map(proxy).collect::<Result<_, _>>()?, server })
    }

    fn started(&self) -> &Started {
        match self.started.get_or_init(|| self.start()) {
            Ok(started) => started,
            Err(error) => panic!("{error}"),
        }
    }

    fn handle(&self) -> &dyn Server {
        &**self.started().server.as_ref().expect("the abilities say whether there is one")
    }
}

#[async_trait]
impl Faults for NetworkFaults {
    fn abilities(&self) -> FaultAbilities {
        let mut abilities = FaultAbilities::NONE
            .aside()
            .slow_answers()
            .lose_answer()
            .outage()
            .silence()
            .reset_connections()
            .hold_requests();
        let server = self.start.is_some();
        (abilities.restart, abilities.restart_wiped, abilities.pause) = (server, server, server);
        abilities.tokens_outlive_data = self.tokens_outlive_data;
        abilities.holds_outlive_restart = self.holds_outlive_restart;
        abilities.duplicate = self.doubles;
        abilities.expire_now = self.expire.is_some();
        abilities.prune = self.prune.is_some();
        abilities
    }

    fn exposed_url(&self) -> Option<String> {
        let addresses: Vec<_> = self.proxies().iter().map(|proxy| proxy.address().to_string()).collect();
        Some((self.url)(&addresses))
    }

    async fn expire_now(&self, key: &LockKey) {
        if let Some(expire) = &self.expire {
            expire(key.clone()).await;
        }
    }

    async fn prune(&self) {
        if let Some(prune) = &self.prune {
            prune().await;
        }
    }

    async fn restart(&self) {
        self.paused.store(false, Ordering::Relaxed);
        self.handle().restart(Data::Kept).await;
    }

    async fn restart_wiped(&self) {
        self.paused.store(false, Ordering::Relaxed);
        self.handle().restart(Data::Wiped).await;
    }

    async fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
        self.handle().pause().await;
    }

    async fn slow_answers(&self, by: Duration) {
        for proxy in self.proxies() {
            proxy.delay(Way::ToClient, by, Duration::ZERO);
        }
    }

    /// Strikes the next request on a connection that exists, whichever operation that is: the proxy
    /// can't tell. A backend that asks again by itself may hide the loss.
    async fn lose_answer(&self, _operation: Operation) {
        for proxy in self.proxies() {
            proxy.lose_next_reply();
        }
    }

    async fn outage(&self) {
        for proxy in self.proxies() {
            proxy.refuse().await;
            proxy.reset().await;
        }
    }

    async fn silence(&self) {
        for proxy in self.proxies() {
            proxy.silence(Way::ToServer);
            proxy.silence(Way::ToClient);
        }
    }

    async fn silence_answers(&self) {
        for proxy in self.proxies() {
            proxy.silence(Way::ToClient);
        }
    }

    async fn reset_connections(&self) {
        for proxy in self.proxies() {
            proxy.reset().await;
        }
    }

    async fn hold_requests(&self) {
        for proxy in self.proxies() {
            proxy.hold(Way::ToServer);
        }
    }

    async fn duplicate(&self) {
        for proxy in self.proxies() {
            // Fails where nothing was held: the request went to another of the addresses.
            let _ = proxy.duplicate().await;
        }
    }

    async fn heal(&self) {
        let Some(Ok(started)) = self.started.get() else { return };
        if self.paused.swap(false, Ordering::Relaxed) {
            self.handle().resume().await;
        }
        for proxy in &started.proxies {
            proxy.pass();
            proxy.accept().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn nothing_is_started_before_it_is_asked_for_and_outages_strike_beside_the_url() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let direct = server.local_addr().unwrap().to_string();
        let faults = NetworkFaults::new([direct.clone()], |addresses| format!("toy://{}/x", addresses[0]))
            .doubles()
            .expire(|_| async {});
        assert_eq!(faults.url(), format!("toy://{direct}/x"));
        let abilities = faults.abilities();
        assert!(abilities.aside && abilities.silence && abilities.duplicate && abilities.expire_now);
        assert!(!abilities.pause && !abilities.restart && !abilities.tokens_outlive_data);
        faults.heal().await;
        assert!(faults.started.get().is_none(), "a process that only lists the cases starts nothing");
        faults.available().unwrap();
        let struck = faults.proxies()[0].address();
        assert_eq!(faults.exposed_url(), Some(format!("toy://{struck}/x")));
        faults.outage().await;
        assert!(TcpStream::connect(struck).is_err());
        assert!(TcpStream::connect(&direct).is_ok());
        faults.heal().await;
        assert!(TcpStream::connect(struck).is_ok());
    }

    #[test]
    fn what_can_t_be_started_is_told_each_time() {
        let faults = NetworkFaults::new(["127.0.0.1:1"], |_| String::new())
            .server(|| Err::<crate::ServerProcess, _>("install it first".to_owned()));
        for _ in 0..2 {
            assert_eq!(faults.available().unwrap_err(), "install it first");
        }
        assert!(faults.abilities().pause);
    }
}

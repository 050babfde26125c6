//! From a URL to a client, by its scheme.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::backend::LockBackend;
use crate::client::{ClientOptions, LockClient};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::memory::MemoryBackend;
use crate::metadata::Metadata;
use crate::namespace::Namespace;
use crate::options::LockOptions;
use crate::url::{StoreUrl, nearest};
use crate::url_option::UrlOption;

type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn LockBackend>>> + Send>>;
type Connect = Arc<dyn Fn(StoreUrl) -> Connecting + Send + Sync>;

/// The URL options that every scheme takes.
pub const COMMON_OPTIONS: [UrlOption; 4] = [
    UrlOption::new(
        "namespace",
        "text",
        "none",
        "A prefix of every key, which sets programs apart that share a store.",
    ),
    UrlOption::new(
        "ttl",
        "duration",
        "30s",
        "Lifetime of a lease without renewal, and how long others wait when a holder dies.",
    ),
    UrlOption::new(
        "op_timeout",
        "duration",
        "the lesser of 2s and ttl/6",
        "Limit of one store operation, at most ttl/6.",
    ),
    UrlOption::new(
        "metadata",
        "on or off",
        "on",
        "Whether to store host name and process id beside a held lock, for people who look.",
    ),
];

/// One kind of store: its schemes, the URL options it takes beside the common ones, and how to connect.
#[derive(Clone)]
pub struct Driver {
    schemes: &'static [&'static str],
    options: &'static [UrlOption],
    connect: Connect,
}

impl Driver {
    /// A kind of store. `connect` gets the URL with the common options taken out.
    pub fn new<F, Fut>(schemes: &'static [&'static str], options: &'static [UrlOption], connect: F) -> Self
    where
        F: Fn(StoreUrl) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Arc<dyn LockBackend>>> + Send + 'static,
    {
        Self { schemes, options, connect: Arc::new(move |url| Box::pin(connect(url))) }
    }

    /// The URL schemes it answers to.
    #[must_use]
    pub const fn schemes(&self) -> &'static [&'static str] {
        self.schemes
    }

    /// The URL options it takes, beside [`COMMON_OPTIONS`].
    #[must_use]
    pub const fn options(&self) -> &'static [UrlOption] {
        self.options
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("schemes", &self.schemes).field("options", &self.options).finish()
    }
}

/// Which schemes a program can connect to. Plain data: nothing registers itself anywhere.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock_core::Result<()> {
/// let client = distlock_core::Registry::new().connect("memory:?namespace=billing&ttl=10s").await?;
/// client.lock("invoice/42").await?.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Registry {
    drivers: Vec<Driver>,
    switched_off: Vec<SwitchedOff>,
}

#[derive(Clone, Debug)]
struct SwitchedOff {
    schemes: &'static [&'static str],
    feature: &'static str,
    hint: &'static str,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// A registry that knows `memory:` alone.
    #[must_use]
    pub fn new() -> Self {
        let memory = Driver::new(&[MemoryBackend::NAME], &[], |url| async move {
            if !url.path.is_empty() || !url.hosts.is_empty() {
                return Err(Error::new(
                    ErrorKind::InvalidUrl,
                    "`memory:` takes no host and no path: each connection is a fresh store; share one by cloning the client",
                ));
            }
            Ok(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>)
        });
        Self { drivers: vec![memory], switched_off: Vec::new() }
    }

    /// Adds a kind of store; its schemes win over those known before.
    #[must_use]
    pub fn with(mut self, driver: Driver) -> Self {
        self.drivers.insert(0, driver);
        self
    }

    /// Names schemes that this build could have, and the cargo feature that brings them. `hint` says
    /// what building that needs beside Rust, if anything.
    #[must_use]
    pub fn switched_off(
        mut self,
        schemes: &'static [&'static str],
        feature: &'static str,
        hint: &'static str,
    ) -> Self {
        self.switched_off.push(SwitchedOff { schemes, feature, hint });
        self
    }

    /// Every kind of store that can be connected to.
    #[must_use]
    pub fn drivers(&self) -> &[Driver] {
        &self.drivers
    }

    /// Every scheme that can be connected to.
    pub fn schemes(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.drivers.iter().flat_map(|driver| driver.schemes.iter().copied())
    }

    /// Connects to the store at `url` with default client options; the URL's options win.
    ///
    /// # Errors
    /// `InvalidUrl`, `InvalidOptions` or `FeatureDisabled` before any I/O; the store's errors.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn connect(&self, url: &str) -> Result<LockClient> {
        self.connect_with(url, ClientOptions::default()).await
    }

    /// Connects to the store at `url` with these client options; the URL's options win.
    ///
    /// # Errors
    /// As [`Registry::connect`].
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn connect_with(&self, url: &str, options: ClientOptions) -> Result<LockClient> {
        let named = |error: Error| error.in_operation(Operation::Connect);
        let mut url = StoreUrl::parse(url).map_err(named)?;
        let driver = self.driver(&url.scheme).map_err(named)?;
        let options = common_options(&mut url, options).map_err(named)?;
        let known: Vec<UrlOption> = COMMON_OPTIONS.iter().chain(driver.options).copied().collect();
        url.refuse_other_than(driver.options, &known).map_err(named)?;
        let backend = (driver.connect)(url).await.map_err(named)?;
        LockClient::with_options(backend, options).map_err(named)
    }

    fn driver(&self, scheme: &str) -> Result<&Driver> {
        if let Some(driver) = self.drivers.iter().find(|driver| driver.schemes.contains(&scheme)) {
            return Ok(driver);
        }
        if let Some(off) = self.switched_off.iter().find(|off| off.schemes.contains(&scheme)) {
            let hint = if off.hint.is_empty() { String::new() } else { format!("; {}", off.hint) };
            return Err(Error::new(
                ErrorKind::FeatureDisabled,
                format!(
                    "`{scheme}:` needs the cargo feature `{0}`, which this build lacks; build with `--features {0}`{hint}",
                    off.feature
                ),
            ));
        }
        let near = nearest(scheme, self.schemes())
            .map(|near| format!("; did you mean `{near}:`?"))
            .unwrap_or_default();
        let known: Vec<_> = self.schemes().map(|scheme| format!("{scheme}:")).collect();
        Err(Error::new(
            ErrorKind::InvalidUrl,
            format!("no store has the scheme `{scheme}:`; this build knows {}{near}", known.join(", ")),
        ))
    }
}

fn common_options(url: &mut StoreUrl, mut options: ClientOptions) -> Result<ClientOptions> {
    let mut defaults: LockOptions = options.defaults;
    if let Some(name) = url.take("namespace") {
        options.namespace = Some(Namespace::new(&name)?);
    }
    if let Some(ttl) = url.take_duration("ttl")? {
        defaults.ttl = ttl;
    }
    if let Some(limit) = url.take_duration("op_timeout")? {
        defaults.op_timeout = Some(limit);
    }
    if url.take_switch("metadata")? == Some(false) {
        options.metadata = Metadata::NONE;
    }
    options.defaults = defaults;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(registry: &Registry, url: &str) -> Error {
        registry.connect(url).await.unwrap_err()
    }

    #[tokio::test]
    async fn bad_urls_say_what_to_do() {
        let registry = Registry::new().switched_off(&["etcd", "etcds"], "etcd", "building it takes protoc");
        for (url, kind, part) in [
            ("locks.db", ErrorKind::InvalidUrl, "scheme"),
            ("memroy:", ErrorKind::InvalidUrl, "did you mean `memory:`"),
            ("etcd://h", ErrorKind::FeatureDisabled, "feature `etcd`"),
            ("etcd://h", ErrorKind::FeatureDisabled, "protoc"),
            ("memory:?tll=5s", ErrorKind::InvalidUrl, "did you mean `ttl`"),
            ("memory:?ttl=0s", ErrorKind::InvalidOptions, "too short"),
            ("memory:?ttl=6s&op_timeout=5s", ErrorKind::InvalidOptions, "1s"),
            ("memory://host", ErrorKind::InvalidUrl, "no host"),
        ] {
            let error = refused(&registry, url).await;
            assert_eq!(error.kind(), kind, "{url}: {error}");
            assert!(error.to_string().contains(part), "{url}: {error}");
        }
    }

    #[tokio::test]
    async fn url_options_reach_the_client() {
        let client = Registry::new().connect("memory:?namespace=a&ttl=5s&metadata=off").await.unwrap();
        assert_eq!(client.options().namespace.as_ref().unwrap().as_str(), "a");
        assert!(client.options().metadata.is_empty());
        let guard = client.lock("k").await.unwrap();
        assert_eq!(guard.ttl().as_secs(), 5);
        assert_eq!(guard.key().to_string(), "k");
    }
}

//! Networks that can be cut: a namespace for each place, joined by a bridge.

mod network;
mod place;

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use place::Place;

use crate::nemesis::{Action, Target};

/// Some places on one network that only they are on. Each is a network namespace with an address of
/// its own: put a server into one, clients into another, and cut whatever is between them.
///
/// A cut is silent, as when a cable is pulled: no reset, no refusal, only packets that don't arrive.
/// It needs the right to make network namespaces: see [`Partition::available`].
///
/// Everything is taken away on drop, with all processes in it, and also when this process is killed.
#[derive(Debug)]
pub struct Partition {
    prefix: String,
    places: Vec<String>,
    janitor: Child,
    /// While this is open the janitor lets the network be.
    lifeline: Option<ChildStdin>,
}

/// Waits for the end of its input, and then takes the namespaces away with all that runs in them.
const JANITOR: &str = r#"
    read -r _
    for namespace; do
        for process in $(ip netns pids "$namespace"); do kill -s KILL "$process"; done
        ip netns delete "$namespace"
    done 2>/dev/null"#;

impl Partition {
    /// Whether this machine lets us make networks.
    ///
    /// # Errors
    /// What is in the way.
    pub fn available() -> Result<(), String> {
        Self::new(&["probe"])
            .map(drop)
            .map_err(|error| format!("no network namespaces here (they need root and iproute2): {error}"))
    }

    /// A network of these places, all connected. The names are short words.
    ///
    /// # Errors
    /// What the system said against it.
    pub fn new(places: &[&str]) -> io::Result<Self> {
        assert!((1..200).contains(&places.len()), "a network has 1 to 199 places");
        let prefix = format!("distlock-{}-{:04x}", std::process::id(), fastrand::u16(..));
        let mut namespaces = vec![format!("{prefix}-switch")];
        namespaces.extend(places.iter().map(|place| format!("{prefix}-{place}")));
        // It comes first, so that nothing that follows can be left behind.
        let mut janitor = Command::new("sh")
            .args(["-c", JANITOR, "janitor"])
            .args(&namespaces)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let lifeline = janitor.stdin.take();
        let partition =
            Self { prefix, places: places.iter().map(ToString::to_string).collect(), janitor, lifeline };
        partition.build()?;
        Ok(partition)
    }

    /// What the names of its namespaces begin with: it has this process's number in it.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The address of a place; all ports are free there.
    #[must_use]
    pub fn address(&self, place: &str) -> Ipv4Addr {
        let number = self.number(place);
        Ipv4Addr::new(10, 99, 0, u8::try_from(number + 10).expect("at most 199 places"))
    }

    /// `program`, to be run at a place.
    #[must_use]
    pub fn command(&self, place: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(place)]).arg(program);
        command
    }

    /// Runs `work` on a thread that is at a place. The sockets that it opens stay there, wherever they
    /// are used later.
    pub fn at<T: Send>(&self, place: &str, work: impl FnOnce() -> T + Send) -> T {
        let door = self.door(place);
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                network::enter(&door);
                work()
            });
            thread.join().expect("the work does not panic")
        })
    }

    /// Where tasks run that are at a place, with all that they spawn and connect.
    #[must_use]
    pub fn place(&self, place: &str) -> Place {
        Place::new(self.door(place))
    }

    /// Connects from a place to a server at another.
    ///
    /// # Errors
    /// If no connection comes about within `limit`.
    pub fn connect(&self, from: &str, to: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
        self.at(from, || TcpStream::connect_timeout(&to, limit))
    }

    /// Cuts a place off from all others: nothing gets in or out.
    pub fn cut(&self, place: &str) {
        self.set_port(place, "down");
    }

    /// Lets nothing get from one place to another; the other direction stays open.
    pub fn block(&self, from: &str, to: &str) {
        let target = format!("{}/32", self.address(to));
        network::ip(&["-n", &self.namespace(from), "route", "replace", "blackhole", &target])
            .expect("a route can be set");
    }

    /// Ends whatever was done to a place: its cut, and the blocks on what it sends.
    pub fn heal(&self, place: &str) {
        self.set_port(place, "up");
        for other in &self.places {
            let target = format!("{}/32", self.address(other));
            // It fails where there is none.
            let _ = network::ip(&["-n", &self.namespace(place), "route", "delete", "blackhole", &target]);
        }
    }

    /// All places, as `dev/services.sh` wants them.
    pub(crate) fn for_services(&self) -> String {
        let places = self.places.iter();
        let words = places.map(|place| format!("{place}={}={}", self.namespace(place), self.address(place)));
        words.collect::<Vec<_>>().join(" ")
    }

    fn door(&self, place: &str) -> File {
        File::open(format!("/run/netns/{}", self.namespace(place)))
            .expect("the namespace is there as long as the partition")
    }

    fn number(&self, place: &str) -> usize {
        let number = self.places.iter().position(|known| known == place);
        number.unwrap_or_else(|| panic!("there is no place {place}; there are {:?}", self.places))
    }

    fn namespace(&self, place: &str) -> String {
        format!("{}-{place}", self.prefix)
    }

    fn switch(&self) -> String {
        format!("{}-switch", self.prefix)
    }

    fn set_port(&self, place: &str, state: &str) {
        let port = format!("port{}", self.number(place));
        network::ip(&["-n", &self.switch(), "link", "set", &port, state]).expect("a port can be switched");
    }

    fn build(&self) -> io::Result<()> {
        network::add_switch(&self.switch())?;
        for (number, place) in self.places.iter().enumerate() {
            let port = format!("port{number}");
            network::add_place(&self.switch(), &port, &self.namespace(place), self.address(place))?;
        }
        Ok(())
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.janitor.wait();
    }
}

/// What lies between one place and all others, for a [`Nemesis`](crate::Nemesis) to cut.
#[derive(Clone, Debug)]
pub struct Link {
    partition: Arc<Partition>,
    place: String,
}

impl Link {
    /// The link of a place.
    #[must_use]
    pub fn new(partition: &Arc<Partition>, place: &str) -> Self {
        Self { partition: Arc::clone(partition), place: place.to_owned() }
    }
}

#[async_trait]
impl Target for Link {
    fn name(&self) -> String {
        format!("link of {}", self.place)
    }

    fn suffers(&self, action: Action) -> bool {
        action == Action::Cut
    }

    async fn begin(&self, _action: Action) {
        self.partition.cut(&self.place);
    }

    async fn end(&self, _action: Action) {
        self.partition.heal(&self.place);
    }
}

//! The toy behind TCP: what a driver can get wrong when connections break.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use distlock_conformance::{Faults, NetworkFaults, Subject};
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Effect, Error, ErrorKind, FencingToken, Health, Lease, LockBackend,
    LockRequest, LostReason, Release, Renewal, Result, Supports, TryLock,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::flaw::Flaw;
use crate::toy::Toy;

/// The toy as a store that is reached over TCP, with the suite's proxy in front.
pub(crate) struct RemoteMutant {
    flaw: Flaw,
    faults: NetworkFaults,
}

impl RemoteMutant {
    pub(crate) fn new(flaw: Flaw) -> Self {
        let address = serve(flaw).to_string();
        let faults = NetworkFaults::new([address], |addresses| addresses[0].clone()).doubles();
        Self { flaw, faults }
    }
}

#[async_trait]
impl Subject for RemoteMutant {
    fn info(&self) -> BackendInfo {
        info(&Toy::new(self.flaw))
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        let address = url.parse().expect("it is an address");
        let (connection, broke) = (Mutex::new(None), AtomicBool::new(false));
        Ok(Arc::new(Remote { flaw: self.flaw, address, info: self.info(), connection, broke }))
    }
    fn url(&self) -> String {
        self.faults.url()
    }
    fn available(&self) -> std::result::Result<(), String> {
        self.faults.available()
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(&self.faults)
    }
}

fn info(toy: &Toy) -> BackendInfo {
    BackendInfo::new("remote toy", toy.info.guarantees.clone(), Supports::NONE)
}

/// Serves one toy until this process ends, in a thread, since it outlives the runtime of any case.
fn serve(flaw: Flaw) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it is bound");
    listener.set_nonblocking(true).expect("a fresh socket");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).expect("it does not block");
            let toy = Arc::new(Toy::new(flaw));
            while let Ok((stream, _)) = listener.accept().await {
                let toy = Arc::clone(&toy);
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let mut line = String::new();
                    while matches!(stream.read_line(&mut line).await, Ok(1..)) {
                        let answer = obey(&toy, line.trim_end()).await;
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                        line.clear();
                    }
                });
            }
        });
    });
    address
}

/// Carries out one line: operation, key, owner, milliseconds, token.
async fn obey(toy: &Toy, line: &str) -> String {
    let fields: Vec<&str> = line.split('\t').collect();
    let [operation, key, owner, millis, token] = fields[..] else { return "what?\n".to_owned() };
    let claim = Claim::new(key.parse().expect("ours"), owner.parse().expect("ours"));
    let ttl = Duration::from_millis(millis.parse().expect("ours"));
    let request = LockRequest::new(claim, ttl);
    let told = |reason: &LostReason| if *reason == LostReason::Stolen { "stolen\n" } else { "expired\n" };
    match operation {
        "try" => match toy.try_lock(&request).await {
            Ok(TryLock::Acquired(lease)) => format!("{}\n", lease.token),
            _ => "busy\n".to_owned(),
        },
        "renew" => {
            let now = Clock::system().now();
            let lease = Lease::granted(&request, token.parse().expect("ours"), ttl, now);
            match toy.renew(&lease, ttl).await {
                Ok(Renewal::Lost(reason)) => told(&reason).to_owned(),
                _ => "renewed\n".to_owned(),
            }
        }
        _ => match toy.unlock(&request.claim).await {
            Ok(Release::NotHeld(reason)) => told(&reason).to_owned(),
            _ => "released\n".to_owned(),
        },
    }
}

/// The driver.
#[derive(Debug)]
struct Remote {
    flaw: Flaw,
    address: SocketAddr,
    info: BackendInfo,
    connection: Mutex<Option<BufReader<TcpStream>>>,
    /// A connection broke.
    broke: AtomicBool,
}

impl Remote {
    async fn ask(&self, operation: &str, claim: &Claim, ttl: Duration, token: u64) -> Result<String> {
        let line = format!("{operation}\t{}\t{}\t{}\t{token}\n", claim.key, claim.owner, ttl.as_millis());
        let mut slot = self.connection.lock().await;
        if self.flaw == Flaw::BreaksForGood && self.broke.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unavailable, "the connection broke; start again"));
        }
        // A call that is dropped midway takes the connection along, and the answer in it.
        let mut stream = match slot.take() {
            Some(stream) => stream,
            None => BufReader::new(TcpStream::connect(self.address).await.map_err(|error| {
                Error::new(ErrorKind::Unavailable, "can't connect; start the toy")
                    .with_effect(Effect::None)
                    .caused_by(error)
            })?),
        };
        if self.flaw == Flaw::ReadsTheLastAnswer {
            let stream = slot.insert(stream);
            let answer = exchange(stream, &line).await;
            if answer.is_err() {
                *slot = None;
            }
            return answer;
        }
        let answer = exchange(&mut stream, &line).await;
        match answer {
            Ok(_) => *slot = Some(stream),
            Err(_) => self.broke.store(true, Ordering::Relaxed),
        }
        answer
    }
}

async fn exchange(stream: &mut BufReader<TcpStream>, line: &str) -> Result<String> {
    let lost = |error: std::io::Error| {
        Error::new(ErrorKind::Unavailable, "the connection broke; ask again").caused_by(error)
    };
    stream.write_all(line.as_bytes()).await.map_err(lost)?;
    let mut answer = String::new();
    match stream.read_line(&mut answer).await.map_err(lost)? {
        0 => Err(Error::new(ErrorKind::Unavailable, "the connection was closed; ask again")),
        _ => Ok(answer.trim_end().to_owned()),
    }
}

#[async_trait]
impl LockBackend for Remote {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let ttl = self.info.guarantees.effective_ttl(request.ttl)?;
        let sent = self.clock().now();
        let answer = match self.ask("try", &request.claim, ttl, 0).await {
            Err(_) if self.flaw == Flaw::ResetIsBusy => "busy".to_owned(),
            answer => answer?,
        };
        match answer.parse::<FencingToken>() {
            Ok(token) => Ok(TryLock::Acquired(Lease::granted(request, token, ttl, sent))),
            Err(_) => Ok(TryLock::Busy(Busy::unknown())),
        }
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let ttl = self.info.guarantees.effective_ttl(ttl)?;
        let sent = self.clock().now();
        match self.ask("renew", &lease.claim, ttl, lease.token.get()).await {
            Err(_) if self.flaw == Flaw::ResetIsALoss => Ok(Renewal::Lost(LostReason::Expired)),
            Err(error) => Err(error),
            Ok(answer) => Ok(match answer.as_str() {
                "stolen" => Renewal::Lost(LostReason::Stolen),
                "expired" => Renewal::Lost(LostReason::Expired),
                _ => lease.renewed(ttl, sent),
            }),
        }
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let answer = self.ask("unlock", claim, Duration::from_secs(1), 0).await?;
        Ok(match answer.as_str() {
            "stolen" => Release::NotHeld(LostReason::Stolen),
            "expired" => Release::NotHeld(LostReason::Expired),
            _ => Release::Released,
        })
    }

    async fn probe(&self) -> Result<Health> {
        Ok(Health::new(None, Duration::ZERO))
    }
}

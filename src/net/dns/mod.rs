//! Resolves names as glibc does (resolv.conf(5)), on every build. musl's resolver, which static binaries use, asks all
//! servers at once and gives up at the first bad answer, so this program could fail to reach a server that `curl` reaches.
//!
//! - `message` encodes queries and decodes answers, without any I/O
//! - `system` reads resolv.conf and hosts

mod message;
mod system;

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdUdpSocket};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

use self::message::{Answer, Kind};
use self::system::Config;

/// The time limit for resolving a name. The connection limit of clients is longer, so they can report each server's answer.
const LIMIT: Duration = Duration::from_secs(9);
/// The time limit for each server in the first round, which leaves time for the other servers.
const FIRST_ROUND: Duration = Duration::from_secs(2);
/// How long the addresses of one family wait for those of the other family.
const OTHER_FAMILY: Duration = Duration::from_secs(1);

/// Resolves names to addresses. It reads the system's files for every name, since they change with the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    resolv_conf: PathBuf,
    hosts: PathBuf,
    port: u16,
}

impl Default for Resolver {
    fn default() -> Self {
        Self::with_files("/etc/resolv.conf", "/etc/hosts", 53)
    }
}

impl Resolver {
    /// Creates a resolver that reads these files, and contacts the servers in `resolv_conf` on this port.
    pub fn with_files(resolv_conf: impl Into<PathBuf>, hosts: impl Into<PathBuf>, port: u16) -> Self {
        Self {
            resolv_conf: resolv_conf.into(),
            hosts: hosts.into(),
            port,
        }
    }

    /// Returns the addresses of a name from the hosts file, or else from the name servers. The error has the answer of
    /// each server.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        let listed = system::listed(&self.hosts, name);
        if !listed.is_empty() {
            return Ok(listed);
        }
        let mut config = Config::read(&self.resolv_conf, self.port);
        if config.rotate {
            let first = usize::from(random()[0]) % config.servers.len().max(1);
            config.servers.rotate_left(first);
        }
        let deadline = Instant::now() + LIMIT;
        let mut said: Vec<String> = Vec::new();
        for full in config.names(name) {
            match both_families(&config, &full, deadline).await {
                Ok(mut found) => {
                    found.sort_by_key(|address| !has_route(*address));
                    return Ok(found);
                }
                // Put answers about the name itself first, since a log line shows only a few.
                Err(words) if full == name => drop(said.splice(..0, words)),
                Err(words) => said.extend(words),
            }
        }
        Err(format!("no address of {name}: {}", said.join(", ")))
    }
}

/// Queries both address families at once and independently, since a server that fails for one may work for the other.
async fn both_families(config: &Config, name: &str, deadline: Instant) -> Result<Vec<IpAddr>, Vec<String>> {
    let v6 = pin!(one_family(config, name, Kind::Aaaa, deadline));
    let v4 = pin!(one_family(config, name, Kind::A, deadline));
    let (first, other) = match select(v6, v4).await {
        Either::Left((first, other)) => (first, Either::Left(other)),
        Either::Right((first, other)) => (first, Either::Right(other)),
    };
    let second = match &first {
        Ok(_) => timeout(OTHER_FAMILY, other).await.unwrap_or(Err(Vec::new())),
        Err(_) => other.await,
    };
    match (first, second) {
        (Ok(mut found), Ok(others)) => {
            found.extend(others);
            found.sort_by_key(IpAddr::is_ipv4);
            Ok(found)
        }
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        (Err(mut said), Err(others)) => {
            said.extend(others);
            let mut known = HashSet::new();
            said.retain(|words| known.insert(words.clone()));
            Err(said)
        }
    }
}

/// Returns the addresses of one family, at least one. Asks the servers in order, and the next one if a server fails. A reply
/// that the name does not exist or has no address is an answer, not a failure.
async fn one_family(
    config: &Config,
    name: &str,
    kind: Kind,
    deadline: Instant,
) -> Result<Vec<IpAddr>, Vec<String>> {
    let mut said = Vec::new();
    for round in 0..config.attempts {
        for server in &config.servers {
            let patience = match round {
                0 => config.timeout.min(FIRST_ROUND),
                _ => config.timeout,
            };
            let now = Instant::now();
            let until = deadline.min(now + patience);
            if now >= until {
                return Err(said);
            }
            let answer = timeout_at(until, ask(*server, name, kind, config.over_tcp)).await;
            let ip = server.ip();
            match answer {
                Ok(Ok(Answer::Addresses(found))) if !found.is_empty() => return Ok(found),
                Ok(Ok(Answer::Addresses(_))) => {
                    said.push(format!("{ip} knows no address of {name}"));
                    return Err(said);
                }
                Ok(Ok(Answer::NoSuchName)) => {
                    said.push(format!("{ip} answers NXDOMAIN to {name}"));
                    return Err(said);
                }
                Ok(Ok(Answer::Failed(code))) => said.push(format!("{ip} answers {code} to {name}")),
                Ok(Ok(Answer::Truncated)) => said.push(format!("{ip} cuts its answer off")),
                Ok(Err(error)) => said.push(format!("{ip}: {error}")),
                Err(_) => said.push(format!("{ip} does not answer")),
            }
        }
    }
    Err(said)
}

/// Sends one query to one server over UDP, from a new port, and over TCP if the answer is truncated.
async fn ask(server: SocketAddr, name: &str, kind: Kind, over_tcp: bool) -> io::Result<Answer> {
    let question = message::question(random(), name, kind)
        .ok_or_else(|| io::Error::other(format!("{name} is not a name")))?;
    if !over_tcp {
        let socket = UdpSocket::bind(any_like(server.ip())).await?;
        // From here on, the socket accepts datagrams from that server only.
        socket.connect(server).await?;
        socket.send(&question).await?;
        let mut buffer = [0; 1500];
        loop {
            let length = socket.recv(&mut buffer).await?;
            match message::answer(&question, buffer.get(..length).unwrap_or_default()) {
                Some(Answer::Truncated) => break,
                Some(answer) => return Ok(answer),
                // This answer belongs to another query.
                None => {}
            }
        }
    }
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).unwrap_or(u16::MAX);
    stream
        .write_all(&[&length.to_be_bytes(), question.as_slice()].concat())
        .await?;
    let mut buffer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut buffer).await?;
    message::answer(&question, &buffer).ok_or_else(|| io::Error::other("its answer is for another question"))
}

fn random() -> [u8; 2] {
    let mut bytes = [0; 2];
    // Without random numbers, the random port still protects the query.
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes
}

/// Whether the host has a route to this address. Sends nothing.
fn has_route(address: IpAddr) -> bool {
    let socket = StdUdpSocket::bind(any_like(address));
    socket.is_ok_and(|socket| socket.connect((address, 9)).is_ok())
}

/// Any free port of this host, in the family of an address.
fn any_like(address: IpAddr) -> SocketAddr {
    match address {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Lets reqwest resolve names.
impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let found = resolver.addresses(name.as_str()).await?;
            let addresses: Addrs = Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(addresses)
        })
    }
}

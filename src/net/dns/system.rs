//! Reads resolv.conf(5) and hosts(5). `LOCALDOMAIN`, `RES_OPTIONS` and `sortlist` are ignored.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::path::Path;
use std::time::Duration;

/// glibc's limits for servers, dots, seconds and attempts.
const MAX_SERVERS: usize = 3;
const MAX_NDOTS: usize = 15;
const MAX_TIMEOUT: u64 = 30;
const MAX_ATTEMPTS: usize = 5;

/// The name servers to ask, and how to ask them.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) servers: Vec<SocketAddr>,
    search: Vec<String>,
    /// A name with at least this many dots is tried before its combinations with the search domains.
    ndots: usize,
    /// The time limit for an answer of a server.
    pub(super) timeout: Duration,
    /// How many times to ask each server.
    pub(super) attempts: usize,
    /// Whether to start with a different server each time.
    pub(super) rotate: bool,
    /// Whether to use TCP instead of UDP.
    pub(super) over_tcp: bool,
}

impl Config {
    /// Reads resolv.conf. If there is no file or no server in it, this host is the server.
    pub(super) fn read(file: &Path, port: u16) -> Self {
        let mut config = Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
            rotate: false,
            over_tcp: false,
        };
        for line in lines(file) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let server = words.next().and_then(|text| server(text, port));
                    config.servers.extend(server);
                }
                Some("search" | "domain") => {
                    let domains = words.map(|domain| domain.trim_matches('.').to_owned());
                    config.search = domains.filter(|domain| !domain.is_empty()).collect();
                }
                Some("options") => words.for_each(|option| config.set(option)),
                _ => {}
            }
        }
        config.servers.truncate(MAX_SERVERS);
        if config.servers.is_empty() {
            config.servers.push((Ipv4Addr::LOCALHOST, port).into());
        }
        config
    }

    fn set(&mut self, option: &str) {
        let (name, value) = option.split_once(':').unwrap_or((option, ""));
        match (name, value.parse::<usize>()) {
            ("ndots", Ok(dots)) => self.ndots = dots.min(MAX_NDOTS),
            ("timeout", Ok(seconds)) => {
                let seconds = u64::try_from(seconds).unwrap_or(MAX_TIMEOUT);
                self.timeout = Duration::from_secs(seconds.clamp(1, MAX_TIMEOUT));
            }
            ("attempts", Ok(rounds)) => self.attempts = rounds.clamp(1, MAX_ATTEMPTS),
            ("rotate", _) => self.rotate = true,
            ("use-vc", _) => self.over_tcp = true,
            _ => {}
        }
    }

    /// Returns the names to try for this name, in order. A trailing dot excludes the search domains.
    pub(super) fn names(&self, name: &str) -> Vec<String> {
        if let Some(absolute) = name.strip_suffix('.') {
            return vec![absolute.to_owned()];
        }
        let searched = self.search.iter().map(|domain| format!("{name}.{domain}"));
        let mut names: Vec<String> = searched.collect();
        let has_dots = name.matches('.').count() >= self.ndots;
        let place = if has_dots { 0 } else { names.len() };
        names.insert(place, name.to_owned());
        names
    }
}

/// Parses a server's address, which may include its network interface: `fe80::1%eth0`.
fn server(text: &str, port: u16) -> Option<SocketAddr> {
    let (ip, interface) = text.split_once('%').unwrap_or((text, ""));
    match ip.parse().ok()? {
        IpAddr::V4(ip) => Some((ip, port).into()),
        IpAddr::V6(ip) => {
            let index = fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"));
            let index = index.unwrap_or_else(|_| interface.to_owned());
            let scope = index.trim().parse().unwrap_or_default();
            Some(SocketAddrV6::new(ip, port, 0, scope).into())
        }
    }
}

/// Returns the addresses that the hosts file lists for a name.
pub(super) fn listed(hosts: &Path, name: &str) -> Vec<IpAddr> {
    let name = name.trim_end_matches('.');
    let address = |line: String| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words
            .any(|listed| listed.eq_ignore_ascii_case(name))
            .then_some(address)
    };
    lines(hosts).filter_map(address).collect()
}

/// Returns the lines of a file in any encoding, or no lines if it cannot be read.
fn lines(file: &Path) -> impl Iterator<Item = String> {
    let lines = File::open(file)
        .ok()
        .map(|file| BufReader::new(file).split(b'\n'));
    let lines = lines.into_iter().flatten().map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).into_owned())
}

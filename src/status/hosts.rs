//! The host names that requests may use. A web page can make its own name resolve to an address of this host, so that a
//! visitor's browser lets it read the server's answers (DNS rebinding). But the browser sends the page's name as `Host`.

use std::net::{Ipv4Addr, Ipv6Addr};

use hyper::Request;
use hyper::header::HOST;

/// Domains that nobody can register on the web: those of RFC 6761, ICANN's for private networks, and `host.docker.internal`.
const PRIVATE: [&str; 2] = [".localhost", ".internal"];

/// The configured host names. Addresses, names without a dot and private names are always accepted.
#[derive(Clone, Debug)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Accepts these additional host names, in upper or lower case.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| canonical(&name)).collect())
    }

    /// Whether a request uses an accepted host name, or none at all: only browsers matter, and they always send one.
    pub(super) fn are_asked<B>(&self, request: &Request<B>) -> bool {
        let headers = request.headers().get_all(HOST).iter();
        let mut headers = headers.map(|host| host.to_str().unwrap_or("not.text"));
        let target = request.uri().authority();
        headers.all(|host| self.has(host)) && target.is_none_or(|target| self.has(target.host()))
    }

    /// Whether `host` is accepted: `name`, `address` or `[address]`, optionally with a port.
    fn has(&self, host: &str) -> bool {
        if let Some(rest) = host.strip_prefix('[') {
            let address = rest.split(']').next().unwrap_or_default();
            return address.parse::<Ipv6Addr>().is_ok();
        }
        let name = canonical(host.split(':').next().unwrap_or_default());
        !name.contains('.')
            || name.parse::<Ipv4Addr>().is_ok()
            || PRIVATE.iter().any(|ending| name.ends_with(ending))
            || self.0.iter().any(|known| match known.strip_prefix('*') {
                Some(ending) => name.ends_with(ending),
                None => *known == name,
            })
    }
}

/// The name in lower case, without the trailing dot of a fully qualified name.
fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

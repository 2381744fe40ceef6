//! The names by which the server may be asked. A page on the web can have its own name resolve to an address of this host,
//! and its visitors' browsers then let it read what is answered here (DNS rebinding); but they send its name as `Host`.

use std::net::{Ipv4Addr, Ipv6Addr};

use hyper::Request;
use hyper::header::HOST;

/// Endings that nobody can register for a page on the web: RFC 6761, and ICANN's for private networks, with
/// `host.docker.internal`.
const PRIVATE: [&str; 2] = [".localhost", ".internal"];

/// The names that need to be told; addresses, names without a dot and private ones do not.
#[derive(Clone, Debug)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Further names, in any case.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| canonical(&name)).collect())
    }

    /// Whether a request asks for a name of this server. Browsers always send one, so without one it does.
    pub(super) fn are_asked<B>(&self, request: &Request<B>) -> bool {
        let headers = request.headers().get_all(HOST).iter();
        let mut headers = headers.map(|host| host.to_str().unwrap_or("not.text"));
        let target = request.uri().authority();
        headers.all(|host| self.has(host)) && target.is_none_or(|target| self.has(target.host()))
    }

    /// `host` is `name`, `address` or `[address]`, and perhaps a port.
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

/// In lower case and without the dot that a whole name may end with.
fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

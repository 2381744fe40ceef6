//! Parses image references as every Docker client does.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::text::quoted;

/// The registry of a reference that names none.
pub(super) const DEFAULT_REGISTRY: &str = "docker.io";
/// The name of the default registry in references from old clients.
const LEGACY_DEFAULT_REGISTRY: &str = "index.docker.io";
/// The path prefix of one-word names on the default registry.
const OFFICIAL_PREFIX: &str = "library/";
/// The tag of a reference with neither a tag nor a digest.
pub(super) const DEFAULT_TAG: &str = "latest";

/// The length limits of the reference grammar, in characters.
const MAX_PATH: usize = 255;
const MAX_REGISTRY: usize = 255;
const MAX_TAG: usize = 128;

/// An image reference, `[registry/]path[:tag][@digest]`, parsed as every Docker client parses it.
///
/// `Display` shows it as it was written, while comparisons use its meaning: `nginx`, `nginx:latest` and
/// `docker.io/library/nginx` are equal. The grammar is that of <https://github.com/distribution/reference>.
#[derive(Clone, Debug)]
pub struct ImageReference {
    written: String,
    registry: String,
    path: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl ImageReference {
    /// Returns the registry's host, with its port if one was written: `docker.io`, `localhost:5000`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the path on the registry, including `library/`: `harness/delegate`, `library/nginx`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the registry and path: `docker.io/harness/delegate`.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.registry, self.path)
    }

    /// Whether the other image is from the same registry and path.
    pub fn is_of_repository(&self, other: &Self) -> bool {
        (&self.registry, &self.path) == (&other.registry, &other.path)
    }

    /// Returns the tag that was written. Without one, returns `latest`, or `None` if the reference has a digest.
    pub fn tag(&self) -> Option<&str> {
        match (&self.tag, &self.digest) {
            (Some(tag), _) => Some(tag),
            (None, None) => Some(DEFAULT_TAG),
            (None, Some(_)) => None,
        }
    }

    /// Returns the digest (`sha256:` and 64 hex digits), if the reference has one.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Returns the canonical form, which is equal for all references that mean the same: `docker.io/library/nginx:latest`.
    pub fn normalised(&self) -> String {
        compose(&self.repository(), self.tag(), self.digest())
    }

    /// Returns the registry and path as they were written.
    pub(super) fn written_name(&self) -> &str {
        split(&self.written).0
    }

    /// Returns the short form that people know, without `docker.io/` and `library/`, unless a parser would mistake the short
    /// form for a reference to another registry or for an image id.
    pub(super) fn familiar_name(&self) -> String {
        if self.registry != DEFAULT_REGISTRY {
            return self.repository();
        }
        let short = match self.path.strip_prefix(OFFICIAL_PREFIX) {
            Some(name) if !name.contains('/') => name,
            _ => &self.path,
        };
        let misread = match short.split_once('/') {
            Some((first, _)) => names_a_registry(first),
            None => short == "sha256" || is_hex(short, 64),
        };
        if misread {
            return self.repository();
        }
        short.to_owned()
    }

    fn meaning(&self) -> (&str, &str, Option<&str>, Option<&str>) {
        (&self.registry, &self.path, self.tag(), self.digest())
    }
}

impl PartialEq for ImageReference {
    fn eq(&self, other: &Self) -> bool {
        self.meaning() == other.meaning()
    }
}

impl Eq for ImageReference {}

impl Hash for ImageReference {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.meaning().hash(state);
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl FromStr for ImageReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|problem| ReferenceError {
            text: quoted(text, 100),
            problem,
        })
    }
}

/// The error for a text that is not an image reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} is not an image reference: {problem}")]
pub struct ReferenceError {
    text: String,
    /// The problem in the text.
    pub problem: &'static str,
}

/// Splits a reference's text into the name, the tag and the digest, and checks none of them.
fn split(text: &str) -> (&str, Option<&str>, Option<&str>) {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    // A colon before the last slash separates the registry's port.
    match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag), digest),
        _ => (rest, None, digest),
    }
}

fn parse(text: &str) -> Result<ImageReference, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.starts_with("sha256:") || is_hex(text, 64) {
        return Err("it is the id of a local image; name a repository, as in harness/delegate:26.02.88404");
    }
    if text.contains("://") {
        return Err("it has a URL scheme; remove it");
    }
    let (name, tag, digest) = split(text);
    let (registry, path) = match name.split_once('/') {
        Some((LEGACY_DEFAULT_REGISTRY, path)) => (DEFAULT_REGISTRY, path),
        Some((registry, path)) if names_a_registry(registry) => (registry, path),
        _ => (DEFAULT_REGISTRY, name),
    };
    if !registry_is_valid(registry) {
        return Err("its registry is not a host name with an optional port");
    }
    let path = if registry == DEFAULT_REGISTRY && !path.contains('/') {
        format!("{OFFICIAL_PREFIX}{path}")
    } else {
        path.to_owned()
    };
    check_path(&path)?;
    if !tag.is_none_or(tag_is_valid) {
        return Err("its tag may have up to 128 letters, digits, _ . and -, and must not start with . or -");
    }
    if !digest.is_none_or(digest_is_valid) {
        return Err(
            "its digest is not sha256: and 64 lower-case hex digits (or sha384: and 96, sha512: and 128)",
        );
    }
    Ok(ImageReference {
        written: text.to_owned(),
        registry: registry.to_owned(),
        path,
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

/// Whether the part before the first slash is a registry rather than the first part of a path.
fn names_a_registry(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.bytes().any(|b| b.is_ascii_uppercase())
}

fn registry_is_valid(registry: &str) -> bool {
    if registry.len() > MAX_REGISTRY {
        return false;
    }
    match registry.rsplit_once(':') {
        // The colon is not one of an IPv6 address.
        Some((host, port)) if !port.contains(']') => host_is_valid(host) && port_is_valid(port),
        _ => host_is_valid(registry),
    }
}

fn host_is_valid(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    host.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}

fn port_is_valid(port: &str) -> bool {
    port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn check_path(path: &str) -> Result<(), &'static str> {
    if path.len() > MAX_PATH {
        return Err("its path is longer than 255 characters");
    }
    if path.split('/').all(component_is_valid) {
        return Ok(());
    }
    if path.to_ascii_lowercase().split('/').all(component_is_valid) {
        return Err("its path has capital letters; it must be lower-case");
    }
    Err("its path may have lower-case letters and digits, joined by single . _ / or by __ or dashes")
}

fn component_is_valid(component: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    component.starts_with(plain)
        && component.ends_with(plain)
        && component
            .split(plain)
            .all(|joint| matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|b| b == b'-'))
}

fn tag_is_valid(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= MAX_TAG
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

fn digest_is_valid(digest: &str) -> bool {
    match digest.split_once(':') {
        Some(("sha256", hex)) => is_hex(hex, 64),
        Some(("sha384", hex)) => is_hex(hex, 96),
        Some(("sha512", hex)) => is_hex(hex, 128),
        _ => false,
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

pub(super) fn compose(name: &str, tag: Option<&str>, digest: Option<&str>) -> String {
    let tag = tag.map(|tag| format!(":{tag}")).unwrap_or_default();
    let digest = digest.map(|digest| format!("@{digest}")).unwrap_or_default();
    format!("{name}{tag}{digest}")
}

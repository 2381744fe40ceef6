//! Small parsers that turn texts into values. An error gives the reason in a few words, or is empty if the value speaks
//! for itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use reqwest::Url;
use tracing::level_filters::LevelFilter;

use super::ProxySettings;
use crate::container::EVERY_WORKLOAD;
use crate::engine::EngineHost;
use crate::image::{ImageReference, check_mirror, check_repository};
use crate::schedule::zone::Zone;
use crate::text::duration::{self, LONGEST};
use crate::text::secret::Secret;
use crate::text::yes_or_no;

/// The actions that `WEBHOOK_EVENTS` accepts. A test compares them with those of events, which this layer cannot use.
pub(super) const ACTIONS: &str = "upgraded, rejected, withdrawn, rolled_back, reconfigured, restored, restarted, health_lost, \
     health_regained, image_removed, skipped, self_upgraded, paused, resumed";

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    yes_or_no(text).ok_or_else(String::new)
}

/// A duration of at least `least`.
pub(super) fn duration(text: &str, least: Duration) -> Result<Duration, String> {
    match duration::parse(text) {
        Some(value) if value < least => Err(format!("less than {}", duration::text(least))),
        Some(value) if value > LONGEST => Err(format!("more than {}", duration::text(LONGEST))),
        Some(value) => Ok(value),
        None => Err(duration::meant(text)
            .map(|meant| format!("write {meant}"))
            .unwrap_or_default()),
    }
}

pub(super) fn log_level(text: &str) -> Result<LevelFilter, String> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "error" => LevelFilter::ERROR,
        "warn" | "warning" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => return Err(String::new()),
    })
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(String::new()),
        Ok(port) => Ok(port),
    }
}

/// Reads a value of `LISTEN_ADDR`.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| match text.strip_prefix(':') {
        Some(port) => format!("all addresses are 0.0.0.0:{port}"),
        None => String::new(),
    })
}

/// A program with its arguments: a JSON array is used as it is, and the shell runs any other text.
pub(super) fn command(text: &str) -> Result<Vec<String>, String> {
    if !text.starts_with('[') {
        return Ok(["/bin/sh", "-c", text].map(str::to_owned).into());
    }
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(command) if command.first().is_none_or(String::is_empty) => Err("it has no program".to_owned()),
        Ok(command) => Ok(command),
        Err(error) => Err(format!("not a JSON array of strings: {error}")),
    }
}

/// A name without blanks or control characters.
pub(super) fn name(text: &str) -> Result<String, String> {
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        Err("it has blanks".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// The names of workloads, or `*` alone for every delegate.
pub(super) fn workloads(text: &str) -> Result<Vec<String>, String> {
    match text {
        EVERY_WORKLOAD => Ok(vec![text.to_owned()]),
        _ if text.contains('*') => Err("* stands alone, for every name".to_owned()),
        _ => names(text),
    }
}

/// A comma-separated list of names without duplicates.
pub(super) fn names(text: &str) -> Result<Vec<String>, String> {
    if text.contains(['"', '\'']) {
        return Err("quotes are part of the value here, as in an env file; leave them out".to_owned());
    }
    let mut names: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let name = name(part)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        Err("it has no name".to_owned())
    } else {
        Ok(names)
    }
}

type UrlError = <Url as FromStr>::Err;

fn parsed_url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| match error {
        UrlError::InvalidPort => "its port is not a number up to 65535".to_owned(),
        _ => "its host is not a name or an address".to_owned(),
    })
}

/// A URL of http or https with a host.
pub(super) fn http_url(text: &str) -> Result<Url, String> {
    let url = parsed_url(text)?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        Ok(url)
    } else {
        Err(format!("unsupported scheme {}", url.scheme()))
    }
}

/// Like [`http_url`], but adds this scheme if the text has none.
fn url_with_default(scheme: &str, text: &str) -> Result<Url, String> {
    if text.contains("://") {
        http_url(text)
    } else {
        http_url(&format!("{scheme}://{text}"))
    }
}

/// The Manager's base URL, without a trailing slash. The default scheme is `https`.
pub(super) fn manager_url(text: &str) -> Result<String, String> {
    let url = url_with_default("https", text)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user or password".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it has a query or fragment".to_owned());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// An image reference.
pub(super) fn image(text: &str) -> Result<ImageReference, String> {
    let image = text.parse::<ImageReference>();
    image.map_err(|error| error.problem.to_string())
}

/// The first part of a reference: `[host[:port]/]path`.
pub(super) fn repository(text: &str) -> Result<String, String> {
    let repository = registry_or_repository(text)?;
    if !repository.contains('/') && repository.contains(':') {
        return Err("it has a tag".to_owned());
    }
    check_repository(&repository).map_err(|error| error.problem.to_string())?;
    Ok(repository)
}

/// A registry, or a path in it that contains repositories: `host[:port][/path]`.
pub(super) fn mirror(text: &str) -> Result<String, String> {
    let mirror = registry_or_repository(text)?;
    check_mirror(&mirror).map_err(|error| error.problem.to_string())?;
    Ok(mirror)
}

fn registry_or_repository(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    if text.contains("://") {
        return Err("it has a scheme".to_owned());
    }
    if text.contains('@') {
        return Err("it has a digest".to_owned());
    }
    // To Docker, a first part with capital letters is a host. Without a dot or a port it is more likely a mistake.
    let first = text.split('/').next().unwrap_or_default();
    if !first.contains(['.', ':']) && first.contains(|c: char| c.is_ascii_uppercase()) {
        return Err("it has capital letters".to_owned());
    }
    // Only in the first part does a colon start a port.
    if text.split('/').skip(1).any(|part| part.contains(':')) {
        return Err("it has a tag".to_owned());
    }
    Ok(text.to_owned())
}

/// A host name or an address, and nothing else; an IPv6 address is in brackets.
pub(super) fn host(text: &str) -> Result<String, String> {
    http_url(&format!("http://{text}"))?;
    let address = text.strip_prefix('[').and_then(|text| text.split_once(']'));
    let after_address = address.map_or(text, |(_, rest)| rest);
    if after_address.contains([':', '/', '@', '?', '#']) {
        return Err("it has more than a host".to_owned());
    }
    Ok(text.to_owned())
}

/// A comma-separated list of [`host`]s; a leading `*.` stands for any first part of a name.
pub(super) fn hosts(text: &str) -> Result<Vec<String>, String> {
    let one = |name: &String| match name.strip_prefix("*.") {
        Some(domain) if !domain.contains('*') => Ok(format!("*.{}", host(domain)?)),
        None if name.starts_with('.') => Err(format!("write *{name} for all names of a domain")),
        None if !name.contains('*') => host(name),
        _ => Err("only the first part of a name can be *".to_owned()),
    };
    names(text)?.iter().map(one).collect()
}

pub(super) fn proxy_scheme(text: &str) -> Result<String, String> {
    let scheme = text.to_ascii_lowercase();
    let is_known = matches!(scheme.as_str(), "http" | "https");
    is_known.then_some(scheme).ok_or_else(String::new)
}

/// The proxy as one URL, optionally with a user and password. The default scheme is `http`.
pub(super) fn proxy(text: &str) -> Result<ProxySettings, String> {
    let mut url = url_with_default("http", text)?;
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let password = Secret::new(decoded(url.password().unwrap_or_default()));
    let login = Some((decoded(url.username()), password)).filter(|(user, _)| !user.is_empty());
    // Neither can fail, since the URL has a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Ok(ProxySettings {
        url: url.as_str().trim_end_matches('/').to_owned(),
        login,
    })
}

/// The engine's address. The default port depends on TLS.
pub(super) fn engine(text: &str, tls: bool, certificates: Option<PathBuf>) -> Result<EngineHost, String> {
    let (scheme, rest) = text.split_once("://").ok_or_else(String::new)?;
    match scheme.to_ascii_lowercase().as_str() {
        "unix" if rest.starts_with('/') => Ok(EngineHost::Unix(PathBuf::from(rest))),
        "unix" => Err("the path is not absolute".to_owned()),
        "tcp" | "http" | "https" => Ok(EngineHost::Tcp {
            address: address(rest, if tls { 2376 } else { 2375 })?,
            tls: certificates,
        }),
        "ssh" => Err("ssh:// is not supported".to_owned()),
        _ => Err(String::new()),
    }
}

/// `host[:port]`.
fn address(text: &str, default_port: u16) -> Result<String, String> {
    // `ftp` makes the URL parser check the host. The parser drops the default port of the scheme, but port 21 is not an
    // engine's.
    let url = parsed_url(&format!("ftp://{text}"))?;
    let host = url.host_str().ok_or("it has no host")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user or password".to_owned());
    }
    if url.path().len() > 1 || url.query().is_some() || url.fragment().is_some() {
        return Err("it has a path".to_owned());
    }
    Ok(format!("{host}:{}", url.port().unwrap_or(default_port)))
}

/// Reads `TZ` as the C library does: it may start with a colon or be the path of a zone file. The case does not matter.
pub(super) fn time_zone(text: &str) -> Result<Zone, String> {
    let name = text.strip_prefix(':').unwrap_or(text);
    let name = name.strip_prefix("/usr/share/zoneinfo/").unwrap_or(name);
    Zone::named(name).ok_or_else(String::new)
}

//! Texts → values: the small parsers. Each says why in a few words, or nothing where the value speaks for itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::Url;

use crate::text::duration;

/// Longer than anything meant: a slip of a unit or of a digit.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

pub(super) const BOOL: &str = "true or false (or 1, yes, on, 0, no, off)";
pub(super) const REPOSITORY: &str =
    "a repository such as registry.example:5000/team: no scheme, no tag, no digest, lower-case path";
pub(super) const HTTP_URL: &str = "a URL that begins with https:// or http://";

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(String::new()),
    }
}

/// A duration of at least `least`.
pub(super) fn duration(text: &str, least: Duration) -> Result<Duration, String> {
    match duration::parse(text) {
        Some(value) if value < least => Err(format!("less than {}", duration::text(least))),
        Some(value) if value > LONGEST => Err(format!("more than {}", duration::text(LONGEST))),
        Some(value) => Ok(value),
        None => Err(String::new()),
    }
}

/// One of a few words, in any case.
pub(super) fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    words
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text))
        .map(|(_, value)| *value)
        .ok_or_else(String::new)
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(String::new()),
        Ok(port) => Ok(port),
    }
}

pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| match text.strip_prefix(':') {
        Some(port) => format!("all addresses are 0.0.0.0:{port}"),
        None => String::new(),
    })
}

/// The path of a URL: it begins with a slash and can be sent as it is.
pub(super) fn url_path(text: &str) -> Result<String, String> {
    let fits = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if fits {
        Ok(text.to_owned())
    } else {
        Err(String::new())
    }
}

/// A name without blanks and control characters.
pub(super) fn name(text: &str) -> Result<String, String> {
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        Err("blanks in it".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// A comma-separated list of names, each once.
pub(super) fn names(text: &str) -> Result<Vec<String>, String> {
    if text.contains(['"', '\'']) {
        return Err("quotes are taken literally here, as in an env file; leave them out".to_owned());
    }
    let mut names: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let name = name(part)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        Err("no name in it".to_owned())
    } else {
        Ok(names)
    }
}

/// A URL of http or https with a host.
pub(super) fn http_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        Ok(url)
    } else {
        Err(format!("the scheme {}", url.scheme()))
    }
}

/// The Manager's base URL without a trailing slash, and whether its scheme had to be assumed.
pub(super) fn manager_url(text: &str) -> Result<(String, bool), String> {
    let assumed = !text.contains("://");
    let url = if assumed {
        http_url(&format!("https://{text}"))?
    } else {
        http_url(text)?
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user or password in it".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("a query or fragment in it".to_owned());
    }
    Ok((url.as_str().trim_end_matches('/').to_owned(), assumed))
}

/// What a reference may begin with: `[host[:port]/]path`, or for a mirror a host alone.
pub(super) fn repository(text: &str, host_alone: bool) -> Result<String, String> {
    if text.contains("://") {
        return Err("a scheme in it".to_owned());
    }
    if text.contains('@') {
        return Err("a digest in it".to_owned());
    }
    let mut parts: Vec<&str> = text.trim_end_matches('/').split('/').collect();
    let first_is_host = (host_alone || parts.len() > 1)
        && parts
            .first()
            .is_some_and(|first| *first == "localhost" || first.contains(['.', ':']));
    if first_is_host {
        let host = parts.remove(0);
        if Url::parse(&format!("http://{host}/")).map_or(true, |url| !url.has_host()) {
            return Err(format!("{host:?} is no host"));
        }
    }
    for part in &parts {
        if let Some((_, tag)) = part.split_once(':') {
            return Err(format!("{tag:?} is a tag"));
        }
        let edges = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let inside = part.chars().all(|c| edges(c) || matches!(c, '.' | '_' | '-'));
        if !inside || !part.starts_with(edges) || !part.ends_with(edges) {
            return Err(format!("{part:?} is no part of a repository"));
        }
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// `%40` → `@`, for the user and password of a URL.
pub(super) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
                digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low)
            }
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() {
            tail.get(2..).unwrap_or_default()
        } else {
            tail
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_told_from_references_and_urls() {
        for (text, host_alone, expected) in [
            ("registry.example:5000", true, Ok("registry.example:5000")),
            (
                "registry.example:5000/mirror/",
                true,
                Ok("registry.example:5000/mirror"),
            ),
            ("localhost:5000", true, Ok("localhost:5000")),
            ("myorg", true, Ok("myorg")),
            ("10.0.0.1:5000/a", true, Ok("10.0.0.1:5000/a")),
            (
                "registry.example/team/delegate",
                false,
                Ok("registry.example/team/delegate"),
            ),
            ("team/my__delegate", false, Ok("team/my__delegate")),
            ("delegate", false, Ok("delegate")),
            ("delegate:1.0", false, Err("tag")),
            ("registry.example:5000/team/delegate:1.0", false, Err("tag")),
            ("https://registry.example", true, Err("scheme")),
            ("team/delegate@sha256:00", false, Err("digest")),
            ("registry.example/Team", true, Err("Team")),
            ("registry.example//team", true, Err("part")),
            ("registry.example:port/team", true, Err("host")),
            ("my registry", true, Err("part")),
            ("/", true, Err("part")),
        ] {
            match (repository(text, host_alone), expected) {
                (Ok(given), Ok(expected)) => assert_eq!(given, expected, "{text}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{text}: {why}"),
                (given, _) => panic!("{text}: {given:?}"),
            }
        }
    }

    #[test]
    fn the_manager_url_keeps_its_path_and_loses_its_slash() {
        for (text, expected) in [
            ("https://app.harness.io", ("https://app.harness.io", false)),
            (
                "https://app.harness.io/gratis/",
                ("https://app.harness.io/gratis", false),
            ),
            ("http://127.0.0.1:8080", ("http://127.0.0.1:8080", false)),
            ("app.harness.io", ("https://app.harness.io", true)),
            (
                "app.harness.io:8443/gratis",
                ("https://app.harness.io:8443/gratis", true),
            ),
        ] {
            assert_eq!(
                manager_url(text),
                Ok((expected.0.to_owned(), expected.1)),
                "{text}"
            );
        }
        for text in [
            "ftp://host",
            "https://",
            "https://u:p@host",
            "https://host?x=1",
            "https://host:x",
            "a b",
        ] {
            assert!(manager_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn escapes_are_decoded_and_stray_percent_signs_stay() {
        for (text, expected) in [
            ("p%40ss%2f", "p@ss/"),
            ("100%", "100%"),
            ("%zz", "%zz"),
            ("%c3%a9", "é"),
        ] {
            assert_eq!(percent_decoded(text), expected);
        }
    }

    #[test]
    fn durations_have_bounds() {
        let second = Duration::from_secs(1);
        assert_eq!(duration("1h30m", second), Ok(Duration::from_secs(5_400)));
        assert_eq!(duration("0", second), Err("less than 1s".to_owned()));
        assert_eq!(duration("31d", second), Err("more than 30d".to_owned()));
        assert_eq!(duration("soon", second), Err(String::new()));
    }

    #[test]
    fn listen_addresses_are_sockets() {
        assert_eq!(
            listen_address("localhost:80"),
            Ok(SocketAddr::from(([127, 0, 0, 1], 80)))
        );
        assert_eq!(listen_address("[::]:80").map(|address| address.port()), Ok(80));
        assert_eq!(
            listen_address(":9464"),
            Err("all addresses are 0.0.0.0:9464".to_owned())
        );
        assert!(listen_address("9464").is_err());
    }
}

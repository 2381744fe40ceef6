//! Reads `NO_PROXY` in the forms that curl, Go and other programs accept.

use std::net::{IpAddr, Ipv6Addr};

/// The exceptions in the form that the HTTP client accepts, and a message for each entry that it would never match.
pub(super) fn parse(text: &str) -> (String, Vec<String>) {
    let mut taken = Vec::new();
    let mut odd = Vec::new();
    let entries = text.split(|c: char| matches!(c, ',' | ';') || c.is_whitespace());
    for entry in entries.filter(|entry| !entry.is_empty()) {
        let name = entry.strip_prefix('*').filter(|rest| rest.starts_with('.'));
        let name = name.unwrap_or(entry).trim_end_matches('.');
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let name = address
            .filter(|text| text.parse::<Ipv6Addr>().is_ok())
            .unwrap_or(name);
        match problem(name) {
            None => taken.push(name.to_owned()),
            Some(problem) => odd.push(format!("{entry:?} matches nothing: {problem}")),
        }
    }
    (taken.join(","), odd)
}

/// Whether the exceptions cover everything. The HTTP client itself applies `*` to names, but not to IP addresses.
pub(super) fn is_all(exceptions: &str) -> bool {
    exceptions.split(',').any(|entry| entry == "*")
}

/// Why an entry cannot match.
fn problem(entry: &str) -> Option<&'static str> {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_network = entry
        .split_once('/')
        .is_some_and(|(ip, length)| ip.parse::<IpAddr>().is_ok() && length.parse::<u8>().is_ok());
    if entry == "*" || is_network || entry.parse::<IpAddr>().is_ok() {
        None
    } else if entry.contains(['/', '*']) || entry.chars().all(|c| c.is_ascii_digit() || c == '.') {
        Some("write a network such as 192.168.0.0/16")
    } else if entry.contains(':') {
        Some("write it without the port")
    } else if entry.chars().all(is_of_name) {
        None
    } else {
        Some("expected a host, an address or a network")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_or_reports_the_forms_of_other_programs() {
        for (text, taken, odd) in [
            ("a.example, .b.example", "a.example,.b.example", 0),
            ("*.a.example;b.example. c", ".a.example,b.example,c", 0),
            (
                "10.0.0.0/8,127.0.0.1,[::1],::1",
                "10.0.0.0/8,127.0.0.1,::1,::1",
                0,
            ),
            ("a,*", "a,*", 0),
            ("a.example:443,10.0.0.1:443,[::1]:80", "", 3),
            ("192.168.*,192.168.,10.0.0.0/255.0.0.0", "", 3),
            ("<local>,a", "a", 1),
        ] {
            let (found, problems) = parse(text);
            assert_eq!(
                (found.as_str(), problems.len()),
                (taken, odd),
                "{text}: {problems:?}"
            );
        }
        assert!(is_all("a,*") && !is_all("a"));
    }
}

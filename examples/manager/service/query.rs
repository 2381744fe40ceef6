//! The query part of a URL, decoded as a servlet container decodes it.

use std::collections::BTreeMap;

/// The parameters of a query; of one that is given twice, the first counts.
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let mut parameters = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.entry(decode(name)).or_insert_with(|| decode(value));
        }
        Self(parameters)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn all(&self) -> BTreeMap<String, String> {
        self.0.clone()
    }
}

fn decode(text: &str) -> String {
    let mut rest = text.as_bytes();
    let mut decoded = Vec::with_capacity(rest.len());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        decoded.push(match (byte, after) {
            (b'+', _) => b' ',
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = after;
                digit(*high) << 4 | digit(*low)
            }
            _ => byte,
        });
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn digit(hex: u8) -> u8 {
    match hex {
        b'0'..=b'9' => hex - b'0',
        _ => hex.to_ascii_lowercase() - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("a=harness%2Fdelegate%3A1&b=x+y%20z&c&d=%C3%bc&a=second&&e=1=2");
        for (name, value) in [
            ("a", "harness/delegate:1"),
            ("b", "x y z"),
            ("c", ""),
            ("d", "ü"),
            ("e", "1=2"),
        ] {
            assert_eq!(query.get(name), Some(value), "{name}");
        }
        assert_eq!(query.get("f"), None);
    }

    #[test]
    fn what_is_not_encoded_right_is_taken_as_it_is() {
        for (text, decoded) in [
            ("%", "%"),
            ("%2", "%2"),
            ("%zz", "%zz"),
            ("100%", "100%"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(decode(text), decoded);
        }
    }
}

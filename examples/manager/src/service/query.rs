//! The query part of a URL, decoded as a servlet container decodes it.

use std::collections::BTreeMap;

/// The parameters of a query.
pub(super) struct Query(BTreeMap<String, Vec<String>>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let mut parameters = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let values: &mut Vec<String> = parameters.entry(decode(name)).or_default();
            values.push(decode(value));
        }
        Self(parameters)
    }

    /// A parameter's value; of one that is given twice, the first counts.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.first().map(String::as_str)
    }

    /// All values of a parameter that may be repeated, empty ones left out.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = self.0.get(name).into_iter().flatten();
        values.map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Each parameter with its first value.
    pub(super) fn firsts(&self) -> BTreeMap<String, String> {
        let first = |(name, values): (&String, &Vec<String>)| Some((name.clone(), values.first()?.clone()));
        self.0.iter().filter_map(first).collect()
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
        assert_eq!(
            query.all("a").collect::<Vec<_>>(),
            ["harness/delegate:1", "second"]
        );
        assert_eq!(query.all("c").count(), 0);
        assert_eq!(query.firsts()["a"], "harness/delegate:1");
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

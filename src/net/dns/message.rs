//! Encodes queries to name servers and decodes answers (RFC 1035, section 4), as far as address lookups need.

use std::net::IpAddr;

/// The address family to query. The number is that of its record type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    A = 1,
    Aaaa = 28,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The name exists and has these addresses.
    Addresses(Vec<IpAddr>),
    /// The name does not exist.
    NoSuchName,
    /// The answer is incomplete. The whole answer must be fetched over TCP.
    Truncated,
    /// The server failed with this error.
    Failed(&'static str),
}

const INTERNET: u16 = 1;
const HEADER: usize = 12;

/// Encodes a recursive query with this id. Returns `None` if the name is invalid.
pub(super) fn question(id: [u8; 2], name: &str, kind: Kind) -> Option<Vec<u8>> {
    let mut message = vec![id[0], id[1], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        let length = u8::try_from(label.len())
            .ok()
            .filter(|length| (1..64).contains(length))?;
        message.push(length);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, kind as u8, 0, 1]);
    (message.len() <= HEADER + 255 + 4).then_some(message)
}

/// Decodes an answer. Returns `None` if it does not belong to this query.
pub(super) fn answer(question: &[u8], answer: &[u8]) -> Option<Answer> {
    let (asked, (header, mut rest)) = (question.get(HEADER..)?, answer.split_at_checked(HEADER)?);
    let &[id0, id1, flags, code, _, _, count0, count1, ..] = header else {
        return None;
    };
    let is_answer = question.starts_with(&[id0, id1]) && flags & 0x80 != 0;
    if !is_answer || !take(&mut rest, asked.len())?.eq_ignore_ascii_case(asked) {
        return None;
    }
    let kind = asked.iter().rev().nth(2).copied()?;
    let count = u16::from_be_bytes([count0, count1]);
    let found = addresses(rest, count, kind.into());
    let (is_authority, recursion) = (flags & 4 != 0, code & 0x80 != 0);
    Some(match code & 0x0f {
        _ if flags & 2 != 0 => Answer::Truncated,
        // The server offers no recursion and knows nothing about the name itself.
        0 if count == 0 && !is_authority && !recursion => Answer::Failed("nothing"),
        0 => found.map_or(Answer::Failed("garbage"), Answer::Addresses),
        1 => Answer::Failed("FORMERR"),
        2 => Answer::Failed("SERVFAIL"),
        3 => Answer::NoSuchName,
        4 => Answer::Failed("NOTIMP"),
        5 => Answer::Failed("REFUSED"),
        _ => Answer::Failed("an error"),
    })
}

/// Returns the addresses in the records. The names are not compared: servers list aliases before the records they lead to.
fn addresses(mut records: &[u8], count: u16, kind: u16) -> Option<Vec<IpAddr>> {
    let mut found = Vec::new();
    for _ in 0..count {
        skip_name(&mut records)?;
        let record: [u8; 10] = take(&mut records, 10)?.try_into().ok()?;
        let [kind0, kind1, class0, class1, _, _, _, _, length0, length1] = record;
        let data = take(&mut records, u16::from_be_bytes([length0, length1]).into())?;
        let is_wanted = u16::from_be_bytes([kind0, kind1]) == kind;
        if !is_wanted || u16::from_be_bytes([class0, class1]) != INTERNET {
            continue;
        }
        if let Ok(address) = <[u8; 4]>::try_from(data) {
            found.push(IpAddr::from(address));
        } else if let Ok(address) = <[u8; 16]>::try_from(data) {
            found.push(IpAddr::from(address));
        }
    }
    Some(found)
}

/// Skips a name, which ends with an empty label or with a pointer to the rest of the name.
fn skip_name(rest: &mut &[u8]) -> Option<()> {
    loop {
        match *take(rest, 1)?.first()? {
            0 => return Some(()),
            length @ 1..64 => take(rest, length.into())?,
            0xc0.. => return take(rest, 1).map(|_| ()),
            _ => return None,
        };
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "app.harness.example";

    /// An answer with an alias and its address: `app` is an alias of `lb`, which has the address 192.0.2.7.
    fn full() -> (Vec<u8>, Vec<u8>) {
        let question = question([7, 9], NAME, Kind::A).unwrap();
        let mut answer = question.clone();
        answer[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 2]);
        answer.extend_from_slice(&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 5, 2, b'l', b'b', 0xc0, 16]);
        answer.extend_from_slice(&[
            2, b'l', b'b', 0xc0, 16, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 7,
        ]);
        (question, answer)
    }

    #[test]
    fn reads_address_behind_an_alias() {
        let (question, bytes) = full();
        let expected = Answer::Addresses(vec!["192.0.2.7".parse().unwrap()]);
        assert_eq!(answer(&question, &bytes), Some(expected));
    }

    #[test]
    fn a_response_to_another_query_is_ignored() {
        let (_, bytes) = full();
        for (id, name, kind) in [
            ([7, 8], NAME, Kind::A),
            ([7, 9], "app.harness.exampl", Kind::A),
            ([7, 9], NAME, Kind::Aaaa),
        ] {
            assert_eq!(answer(&question(id, name, kind).unwrap(), &bytes), None, "{name}");
        }
        // An echo of the question does not count.
        let (question, _) = full();
        assert_eq!(answer(&question, &question), None);
    }

    #[test]
    fn arbitrary_bytes_never_break_the_parser() {
        let (question, bytes) = full();
        for length in 0..bytes.len() {
            let cut = answer(&question, &bytes[..length]);
            let is_bad = matches!(cut, None | Some(Answer::Failed("garbage")));
            assert!(is_bad, "{length}: {cut:?}");
        }
        for place in 0..bytes.len() {
            for byte in 0..=u8::MAX {
                let mut changed = bytes.clone();
                changed[place] = byte;
                let _ = answer(&question, &changed);
            }
        }
    }

    #[test]
    fn only_valid_names_are_queried() {
        let (label, long) = ("a".repeat(64), ["abcdefg"; 32].join("."));
        for name in ["", ".", "a..b", "a.", &label, &long] {
            assert_eq!(question([0, 0], name, Kind::A), None, "{name}");
        }
        assert!(question([0, 0], &["abcdefg"; 31].join("."), Kind::A).is_some());
    }
}

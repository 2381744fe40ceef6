//! Time zones, from IANA data in the binary, read by tz-rs.
//!
//! The tables of chrono-tz are full of pointers, which a position-independent binary must relocate at its start: this
//! costs 1 MB of size and 1 MB of memory. The data here, which build/zones.rs shortens, needs no relocation, and only
//! the zone in use is read.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, FixedOffset, NaiveDateTime, Offset, TimeZone as _, Utc};
use tz::TimeZone;
use tz::timezone::TransitionRule;

/// A line `NAME BEGIN END` for each name, with the position of its zone in `DATA`.
const NAMES: &str = include_str!(concat!(env!("OUT_DIR"), "/zones.txt"));
const DATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/zones.dat"));
/// The length of the first part of `DATA`, with which the data of every zone starts.
const FIRST_PART: usize = 51;

/// A time zone and its IANA name.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: &'static str,
    rules: Arc<TimeZone>,
}

impl Default for Zone {
    fn default() -> Self {
        Self::utc()
    }
}

impl Zone {
    /// UTC.
    pub fn utc() -> Self {
        Self {
            name: "UTC",
            rules: Arc::new(TimeZone::utc()),
        }
    }

    /// The zone of that name, in upper or lower case; `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        let mut lines = NAMES.lines().filter_map(|line| line.split_once(' '));
        let (name, place) = lines.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        let (begin, end) = place.split_once(' ')?;
        let data = DATA.get(begin.parse().ok()?..end.parse().ok()?)?;
        let file = [DATA.get(..FIRST_PART)?, data].concat();
        let rules = Arc::new(TimeZone::from_tz_data(&file).ok()?);
        Some(Self { name, rules })
    }

    /// The IANA name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// That moment in this zone, with the zone's offset from UTC at that time.
    pub fn local(&self, at: DateTime<Utc>) -> DateTime<FixedOffset> {
        at.with_timezone(&self.offset(at))
    }

    /// The offset from UTC at that moment. If a zone has no rule for an old date, UTC is assumed.
    pub(super) fn offset(&self, at: DateTime<Utc>) -> FixedOffset {
        self.rules
            .find_local_time_type(at.timestamp())
            .ok()
            .and_then(|local| FixedOffset::east_opt(local.ut_offset()))
            .unwrap_or_else(|| Utc.fix())
    }

    /// The moments at which clocks show that local time: none if they skip it, two if they repeat it.
    pub(super) fn instants(&self, local: NaiveDateTime) -> impl Iterator<Item = DateTime<Utc>> {
        let rules = TimeZone::as_ref(&self.rules);
        let from_now_on = match rules.extra_rule() {
            Some(TransitionRule::Fixed(kind)) => [Some(kind), None],
            Some(TransitionRule::Alternate(changes)) => [Some(changes.std()), Some(changes.dst())],
            None => [None, None],
        };
        rules
            .local_time_types()
            .iter()
            .chain(from_now_on.into_iter().flatten())
            .filter_map(|kind| FixedOffset::east_opt(kind.ut_offset()))
            .filter_map(move |offset| {
                let at = offset.from_local_datetime(&local).single()?.to_utc();
                (self.offset(at) == offset).then_some(at)
            })
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

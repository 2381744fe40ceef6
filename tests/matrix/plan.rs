//! Which points there are, and which of them are tried.

use std::collections::BTreeMap;
use std::env;

use crate::point::Point;
use crate::proxy::{Fault, Trap, unnumbered};
use crate::scenario::Scenario;

/// About each so manieth point is tried by `make test`.
const SMALL_SHARE: u64 = 60;

/// What is asked for.
pub(crate) struct Selection {
    /// Only what there is was asked for, as `cargo test -- --list` does.
    pub(crate) lists: bool,
    /// Nothing was asked for: a few points of all kinds.
    pub(crate) is_small: bool,
    parts: Vec<String>,
    share: u64,
}

impl Selection {
    pub(crate) fn from_process() -> Self {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let parts: Vec<String> = arguments
            .iter()
            .filter(|argument| !argument.starts_with("--"))
            .cloned()
            .collect();
        let share = match env::var("MATRIX_SHARE").as_deref() {
            Ok("all") => 1,
            Ok(share) if !share.is_empty() => share
                .parse()
                .unwrap_or_else(|_| panic!("MATRIX_SHARE={share}: all or a number is accepted")),
            // Who names points wants all of them.
            _ if !parts.is_empty() => 1,
            _ => SMALL_SHARE,
        };
        Self {
            is_small: share == SMALL_SHARE,
            lists: arguments.iter().any(|argument| argument == "--list"),
            parts,
            share: share.max(1),
        }
    }

    /// Whether the acts of people are asked for, and nothing else.
    pub(crate) fn names_people(&self) -> bool {
        self.parts.iter().any(|part| part.starts_with("people"))
    }

    /// Whether they are tried: where they are named, and with the small share of all else a small share of them.
    pub(crate) fn has_people(&self) -> bool {
        self.names_people() || (self.is_small && self.parts.is_empty())
    }

    /// Whether a point of this name is tried.
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.parts.iter().all(|part| name.contains(part.as_str())) && hash(name).is_multiple_of(self.share)
    }
}

/// FNV-1a: the same share on every machine and in every version.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Each call of each scenario with each fault; of a bad image's only the writes, since the rest is the same. To a read
/// before and after are the same, for both sides.
pub(crate) fn points(
    recorded: &BTreeMap<Scenario, Vec<(String, bool)>>,
    selection: &Selection,
) -> Vec<Point> {
    let mut points = Vec::new();
    for (scenario, calls) in recorded {
        for (call, write) in calls {
            if !(*write || scenario.is_good()) || is_by_chance(call) {
                continue;
            }
            for fault in Fault::SINGLE {
                if !*write && !fault.is_before() {
                    continue;
                }
                // A fault that stays is waited for for minutes: where something is to be changed, and not in a share.
                if fault == Fault::ErrorStays && !(*write && scenario.is_good() && selection.share == 1) {
                    continue;
                }
                let point = Point {
                    number: 100 + points.len(),
                    scenario: *scenario,
                    trap: Some(trap(calls, call, fault)),
                    circumstance: String::new(),
                    gate: None,
                };
                points.push(point);
            }
        }
    }
    points.retain(|point| selection.takes(&point.name()));
    points
}

/// A fault at one of these calls.
pub(crate) fn trap(calls: &[(String, bool)], call: &str, fault: Fault) -> Trap {
    let before = calls.iter().map(|(earlier, _)| earlier.as_str());
    let before = before.take_while(|earlier| *earlier != call);
    Trap {
        point: call.to_owned(),
        same_before: before
            .filter(|earlier| unnumbered(earlier) == unnumbered(call))
            .count(),
        fault,
    }
}

/// Other points' containers come and go: the upgrader looks at each once, whenever it is.
fn is_by_chance(call: &str) -> bool {
    call.contains(crate::call::STRANGER) && !call.starts_with("00")
}

//! The list of points, and the selection of the points to try.

use std::collections::BTreeMap;
use std::env;

use crate::point::Point;
use crate::proxy::{Fault, Trap, unnumbered};
use crate::scenario::Scenario;

/// `make test` tries about one point in this many.
const SMALL_SHARE: u64 = 60;

/// The requested points.
pub(crate) struct Selection {
    /// Only a list of the points was requested, as with `cargo test -- --list`.
    pub(crate) lists: bool,
    /// Nothing was requested: a few points of all kinds.
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
            // A request for named points means all of them.
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

/// Each call of each scenario with each fault; for a bad image only the writes, since the rest is the same. For a read,
/// before and after are the same on both sides.
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
                // A lasting fault takes minutes: it is tried only at writes for a good image, and only in a full run.
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

/// Containers of other points come and go: the upgrader looks at each once, at any time.
fn is_by_chance(call: &str) -> bool {
    call.contains(crate::call::STRANGER) && !call.starts_with("00")
}

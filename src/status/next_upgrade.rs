//! When the next upgrade can start, derived from the blockers of each delegate.

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::report::{DelegateReport, Report};
use crate::rollout::reason::ReasonKind;
use crate::rollout::{Blocker, BlockerKind};
use crate::schedule::zone::Zone;
use crate::text::time;

/// The next upgrade on a host, of whichever delegate comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextUpgrade {
    /// The earliest time at which it can start; `None` if it will not start by itself.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub at: Option<DateTime<Utc>>,
    /// The blocker that ends at `at`, or if `at` is `None`, the first blocker that has to end.
    pub reason: ReasonKind,
    /// The same in words, in the time zone of the schedule.
    pub text: String,
}

impl NextUpgrade {
    /// `None` if an upgrade is in progress, if nothing is known yet, or if nothing is ever upgraded.
    pub fn of(report: &Report, zone: &Zone, now: DateTime<Utc>) -> Option<Self> {
        let is_waiting =
            |blocker: &Blocker| !matches!(blocker.kind, BlockerKind::Turn | BlockerKind::Question);
        let listed = report
            .delegates
            .iter()
            .filter(|row| !row.blockers.is_empty() && row.blockers.iter().all(is_waiting));
        let (current, blocked): (Vec<_>, Vec<_>) =
            listed.partition(|row| row.blockers.iter().any(|it| it.kind == BlockerKind::Current));
        // A delegate can start once its last blocker ends, if each ends by itself.
        let ends = blocked.iter().filter_map(|row| {
            let end = |blocker: &Blocker| Some((blocker.until?, blocker.reason.kind()));
            let ends: Option<Vec<_>> = row.blockers.iter().map(end).collect();
            ends?.into_iter().max_by_key(|(until, _)| *until)
        });
        if let Some((at, reason)) = ends.min_by_key(|(until, _)| *until) {
            let text = format!("{} {zone} ({})", clock(zone, at, now), word(reason));
            let at = Some(at);
            return Some(Self { at, reason, text });
        }
        let lasts = |blocker: &&Blocker| blocker.until.is_none();
        let is_worth_a_word = |row: &&&DelegateReport| {
            row.failed || row.blockers.iter().any(|it| it.kind != BlockerKind::Nature)
        };
        let first = blocked
            .iter()
            .find(is_worth_a_word)
            .and_then(|row| Some((row, row.blockers.iter().find(lasts)?)));
        let (reason, text) = match (first, current.first()) {
            (Some((row, blocker)), _) => {
                let reason = blocker.reason.kind();
                (
                    reason,
                    format!("none while {} ({})", reason.as_str(), row.container),
                )
            }
            (None, Some(_)) => (ReasonKind::UpToDate, "none: all run what is published".to_owned()),
            (None, None) => return None,
        };
        Some(Self {
            at: None,
            reason,
            text,
        })
    }
}

/// The local time: with the day of the week if that is not today but near, and else with the date.
pub(super) fn clock(zone: &Zone, at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let (local, today) = (zone.local(at), zone.local(now));
    let form = match (at - now).abs() {
        _ if local.date_naive() == today.date_naive() => "%H:%M",
        wait if wait < TimeDelta::days(6) => "%a %H:%M",
        _ => "%Y-%m-%d %H:%M",
    };
    local.format(form).to_string()
}

fn word(reason: ReasonKind) -> &'static str {
    match reason {
        ReasonKind::OutsideWindow => "window",
        ReasonKind::AwaitingSchedule => "schedule",
        reason => reason.as_str(),
    }
}

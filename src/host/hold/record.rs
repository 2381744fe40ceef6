//! The volumes with the engine's records of holds on replacements.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::rejected::{REJECTED, Rejected};
use crate::container::Request;
use crate::container::label::{IMAGE, NAME, RECORD, SINCE, UNTIL};
use crate::engine::{Engine, EngineError, Volume};
use crate::host::place::command_for;
use crate::text::time;

/// The prefix of the names of our volumes.
pub const VOLUMES: &str = "delegate-upgrader.";
/// The value of [`RECORD`] for a pause.
pub(super) const PAUSE: &str = "pause";
/// The value of [`RECORD`] for the first sight of an image.
const FIRST_SEEN: &str = "first-seen";
/// Older records of images are removed when another one is written.
pub(super) const REMEMBERED: TimeDelta = TimeDelta::days(90);

/// A pause, or its end: a pause that was over at once. Running replacements still finish.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Paused {
    /// When it started.
    #[serde(serialize_with = "time::serialize")]
    pub since: DateTime<Utc>,
    /// When it ends; `None` if only `resume` ends it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub until: Option<DateTime<Utc>>,
    /// The container name of the paused delegate; `None` for the whole host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate: Option<String>,
    /// The operator's request.
    #[serde(flatten)]
    pub request: Request,
    /// Identifies the record: the name of its volume.
    #[serde(skip)]
    pub record: String,
}

impl Paused {
    /// Whether the pause holds at this time.
    pub fn lasts(&self, now: DateTime<Utc>) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// The pauses that hold.
    pub fn lasting(pauses: &[Self], now: DateTime<Utc>) -> impl Iterator<Item = &Self> {
        Self::latest(pauses).filter(move |pause| pause.lasts(now))
    }

    /// Returns the latest pause of the host and of each delegate, since a new one may replace another that still exists.
    fn latest(pauses: &[Self]) -> impl Iterator<Item = &Self> {
        let mut latest = BTreeMap::new();
        for pause in pauses {
            let known = latest.entry(&pause.delegate).or_insert(pause);
            *known = pause.max(known);
        }
        latest.into_values()
    }
}

/// Whose upgrades are paused, since and until when, what resumes them, and who asked for that.
impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delegate = self.delegate.as_deref();
        let (what, since) = (delegate.unwrap_or("this host"), time::text(self.since));
        write!(f, "upgrades are paused on {what} since {since}")?;
        if let Some(until) = self.until {
            write!(f, ", until {}", time::text(until))?;
        }
        let resume = command_for("resume", delegate.unwrap_or_default());
        write!(f, "; `{resume}` resumes them{}", self.request)
    }
}

/// The records in the volumes of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostRecords {
    /// The pauses, including past ones.
    pub pauses: Vec<Paused>,
    /// When each image was first seen.
    first_seen: BTreeMap<String, DateTime<Utc>>,
    /// The rejected candidates of all delegates.
    pub rejected: Vec<Rejected>,
}

impl HostRecords {
    /// The pause of this delegate, or of the whole host, that ends last. It may be over.
    pub fn pause(&self, delegate: &str) -> Option<&Paused> {
        let is_about = |pause: &&Paused| pause.delegate.as_deref().is_none_or(|name| name == delegate);
        let latest = Paused::latest(&self.pauses).filter(is_about);
        let end = |pause: &Paused| pause.until.unwrap_or(DateTime::<Utc>::MAX_UTC);
        latest.max_by_key(|pause| (end(pause), pause.delegate.is_none()))
    }

    /// When this image was first seen here.
    pub fn first_seen(&self, image: &str) -> Option<DateTime<Utc>> {
        self.first_seen.get(image).copied()
    }

    /// The rejected candidates of this delegate.
    pub fn rejected_of(&self, delegate: &str) -> Vec<Rejected> {
        let is_its_own = |rejected: &&Rejected| rejected.delegate == delegate;
        self.rejected.iter().filter(is_its_own).cloned().collect()
    }

    fn of(volumes: &[Volume]) -> Self {
        let mut records = Self::default();
        for volume in volumes {
            let Some(since) = volume.time(SINCE) else {
                continue;
            };
            let label = |name: &str| volume.labels.get(name).map(String::as_str);
            match label(RECORD) {
                Some(PAUSE) => {
                    let delegate = volume.labels.get(NAME).filter(|name| !name.is_empty());
                    records.pauses.push(Paused {
                        since,
                        until: volume.time(UNTIL),
                        delegate: delegate.cloned(),
                        request: Request::read(label).unwrap_or_default(),
                        record: volume.name.clone(),
                    });
                }
                Some(FIRST_SEEN) => {
                    let image = volume.labels.get(IMAGE).cloned().unwrap_or_default();
                    let first = records.first_seen.entry(image).or_insert(since);
                    *first = since.min(*first);
                }
                Some(REJECTED) => records.rejected.extend(Rejected::read(volume, since)),
                _ => {}
            }
        }
        records
    }
}

/// Reads the engine's records.
///
/// # Errors
/// The engine did not answer, or a proxy refused the call.
pub async fn read_records<E: Engine>(engine: &E) -> Result<HostRecords, EngineError> {
    Ok(HostRecords::of(&engine.volumes(RECORD).await?))
}

/// Records that this image was first seen now, and removes old records. Succeeds if it is recorded already.
///
/// # Errors
/// The engine did not create or remove a record.
pub async fn note_first_seen<E: Engine>(
    engine: &E,
    image: &str,
    now: DateTime<Utc>,
) -> Result<(), EngineError> {
    for old in engine.volumes(RECORD).await? {
        let is_old = old.time(SINCE).is_some_and(|since| now - since > REMEMBERED);
        let is_seen = old.labels.get(RECORD).is_some_and(|record| record == FIRST_SEEN);
        if is_old && is_seen && old.labels.get(IMAGE).is_none_or(|other| other != image) {
            engine.remove_volume(&old.name).await?;
        }
    }
    let hash = digest(&SHA256, image.as_bytes());
    let hash = hash.as_ref().first_chunk().copied().map(u64::from_be_bytes);
    let name = format!("delegate-upgrader.seen-{:016x}", hash.unwrap_or_default());
    let labels = [
        (RECORD, FIRST_SEEN.to_owned()),
        (IMAGE, image.to_owned()),
        (SINCE, time::text(now)),
    ];
    engine.create_volume(&Volume::new(name, labels)).await
}

/// Records a rejection in place of earlier ones of the same image and delegate, which it counts, and removes old records.
/// `lasting` is the length of the quarantine after that many. Succeeds if it is recorded already.
///
/// # Errors
/// The engine did not create or remove a record.
pub async fn note_rejection<E: Engine>(
    engine: &E,
    mut rejected: Rejected,
    lasting: impl Fn(u32) -> TimeDelta,
) -> Result<(), EngineError> {
    let others = read_records(engine).await?.rejected;
    if others.iter().any(|other| other.record == rejected.record) {
        return Ok(());
    }
    let is_same =
        |other: &Rejected| other.delegate == rejected.delegate && other.image_id == rejected.image_id;
    let earlier = others.iter().filter(|other| is_same(other));
    let attempt = earlier.map(|earlier| earlier.attempt.saturating_add(1)).max();
    let now = rejected.since;
    let (over, _): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|other| is_same(other) || now - other.since > REMEMBERED);
    rejected.attempt = rejected.attempt.max(attempt.unwrap_or_default());
    rejected.until = now + lasting(rejected.attempt);
    engine.create_volume(&rejected.volume()).await?;
    for other in over {
        engine.remove_volume(&other.record).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn of<const N: usize>(labels: [(&str, &str); N]) -> Volume {
        Volume::new(
            "v".to_owned(),
            labels.map(|(name, value)| (name, value.to_owned())),
        )
    }

    #[test]
    fn foreign_volumes_and_unreadable_labels_are_ignored() {
        let noon = "2026-12-01T12:00:00Z";
        let volumes = [
            of([(RECORD, PAUSE), (SINCE, "noon"), (UNTIL, noon)]),
            of([(RECORD, "something newer"), (SINCE, noon), (UNTIL, noon)]),
            of([("theirs", PAUSE), (SINCE, noon), (UNTIL, noon)]),
        ];
        assert_eq!(HostRecords::of(&volumes), HostRecords::default());
    }

    #[test]
    fn uses_the_latest_pause_of_each_kind_and_the_first_sight() {
        let pause = |since, until, name| of([(RECORD, PAUSE), (SINCE, since), (UNTIL, until), (NAME, name)]);
        let seen = |since| of([(RECORD, FIRST_SEEN), (SINCE, since), (IMAGE, "a:1")]);
        let mut volumes = vec![
            pause("2026-12-01T12:00:01Z", "2026-12-02T00:00:00Z", ""),
            pause("2026-12-01T12:00:00Z", "", ""),
            pause("2026-12-01T11:00:00Z", "2026-12-03T00:00:00Z", "dd"),
            seen("2026-12-01T08:00:00Z"),
            seen("2026-12-01T07:00:00Z"),
        ];
        let records = HostRecords::of(&volumes);
        let until = |records: &HostRecords, name| records.pause(name).map(|pause| pause.until);
        assert_eq!(until(&records, "dd"), Some(Some(at("2026-12-03T00:00:00Z"))));
        assert_eq!(until(&records, "other"), Some(Some(at("2026-12-02T00:00:00Z"))));
        assert_eq!(records.first_seen("a:1"), Some(at("2026-12-01T07:00:00Z")));
        assert_eq!(records.first_seen("a:2"), None);
        volumes.push(pause("2026-12-01T12:00:02Z", "", ""));
        assert_eq!(until(&HostRecords::of(&volumes), "dd"), Some(None));
    }
}

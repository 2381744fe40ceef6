//! The releases of a delegate, from the records of the audit log and from the state of its containers.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::event::{Action, Event};
use super::managed::{outcomes_of_managed, past_of_managed};
use super::note::Notes;
use super::outcome::{At, Outcome};
use crate::host::place;
use crate::managed::Managed;
use crate::rollout::Rollout;
use crate::text::time;

/// The history of one delegate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct History {
    /// The container's name.
    pub container: String,
    /// Its `DELEGATE_NAME`.
    pub workload: String,
    /// The releases that it ran or tried, the earliest first.
    pub releases: Vec<Release>,
    /// The records of the audit log, and other outcomes that the containers show, the earliest first.
    pub events: Vec<Event>,
}

/// One release, or a failed attempt at one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Release {
    /// Its number. Failed attempts are also numbered; 0 is the container that the owner created.
    pub release: u64,
    /// The image reference.
    pub image: String,
    /// The image's id, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// When its outcome was found, if known.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub time: Option<DateTime<Utc>>,
    /// `original`, `upgraded`, `rolled_back`, `reconfigured`, `rejected`, `withdrawn` or `restored`.
    pub outcome: &'static str,
    /// Whether its container is in service.
    pub is_serving: bool,
    /// Whether its image is still on this host, so that a rollback can use it; absent if that was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_available: Option<bool>,
    /// The outcome in words, and how long it took.
    pub message: String,
}

const ORIGINAL: &str = "original";

/// The history of a delegate as far as its containers or its service show it.
#[derive(Clone, Debug)]
pub struct Present {
    workload: String,
    /// Its outcomes; of two with the same id, the first counts. For want of a better time, each has the creation time of the
    /// container that shows it.
    shown: Vec<Event>,
    /// The release in service, used if it has no record.
    serving: Option<Release>,
    /// The number of the last attempt.
    last: u64,
}

impl From<&Rollout> for Present {
    fn from(rollout: &Rollout) -> Self {
        let at = At {
            rollout,
            notes: &Notes::default(),
            host: &place::host(),
            now: DateTime::default(),
        };
        let outcomes = at.outcomes();
        let serving = rollout.serving.as_ref().map(|serving| Release {
            image_id: Some(serving.image_id.as_str().to_owned()),
            time: Some(serving.created_at),
            ..Release::unrecorded(serving.release, serving.image.to_string())
        });
        Self {
            workload: rollout.workload.clone(),
            shown: at_their_time(outcomes),
            serving,
            last: rollout.latest_release(),
        }
    }
}

impl From<&Managed> for Present {
    fn from(managed: &Managed) -> Self {
        let host = place::host();
        // A healthy time of zero: the update counts as complete as soon as all its tasks run.
        let outcomes = outcomes_of_managed(managed, Duration::ZERO, &host, DateTime::<Utc>::MAX_UTC);
        let mut shown = at_their_time(outcomes);
        shown.extend(past_of_managed(managed, &host));
        let (record, image) = (&managed.record, managed.image.to_string());
        let serving = match managed.release() {
            Some(release) => Release {
                time: record.attempt.as_ref().map(|attempt| attempt.since),
                ..Release::unrecorded(release, image)
            },
            // An image that someone else set has no release number of its own.
            None => Release {
                release: record.release,
                ..Release::unrecorded(0, image)
            },
        };
        Self {
            workload: managed.workload.clone(),
            shown,
            serving: Some(serving),
            last: record.release,
        }
    }
}

fn at_their_time(outcomes: Vec<Outcome>) -> Vec<Event> {
    let outcomes = outcomes
        .into_iter()
        .filter(|outcome| outcome.since > DateTime::UNIX_EPOCH);
    let at_since = outcomes.map(|outcome| Event {
        time: outcome.since,
        ..outcome.event
    });
    at_since.collect()
}

impl Release {
    /// Whether an operator means this one: by its number, by the tag of its image, or by the whole reference.
    pub fn is_named(&self, given: &str) -> bool {
        let tagged = self.image.split('@').next().unwrap_or_default();
        let tag = tagged.rsplit_once(':').map(|(_, tag)| tag);
        self.release.to_string() == given || self.image == given || tagged == given || tag == Some(given)
    }

    /// Whether the delegate ran this release, so that it can return to it.
    fn was_served(&self) -> bool {
        let served = [Action::Upgraded, Action::RolledBack, Action::Reconfigured].map(Action::as_str);
        self.outcome == ORIGINAL || served.contains(&self.outcome)
    }

    fn of(event: &Event) -> Option<Self> {
        let is_release = matches!(
            event.action,
            Action::Upgraded
                | Action::RolledBack
                | Action::Reconfigured
                | Action::Rejected
                | Action::Withdrawn
                | Action::Restored
        );
        is_release.then(|| Self {
            release: event.release.unwrap_or_default(),
            image: event.to.clone().unwrap_or_default(),
            image_id: event.image_id.clone(),
            time: Some(event.time),
            outcome: event.action.as_str(),
            message: format!("{}{}", event.message, took(event)),
            ..Self::default()
        })
    }

    /// The release before this event's, of which only the image is known.
    fn before(event: &Event) -> Option<Self> {
        let release = event.previous_release?;
        Some(Self {
            image_id: event.previous_image_id.clone(),
            message: String::new(),
            ..Self::unrecorded(release, event.from.clone()?)
        })
    }

    /// A release that no event reports.
    fn unrecorded(release: u64, image: String) -> Self {
        let (outcome, message) = match release {
            0 => (ORIGINAL, "as its owner made it"),
            _ => (Action::Upgraded.as_str(), "in progress"),
        };
        Self {
            release,
            image,
            outcome,
            message: message.to_owned(),
            ..Self::default()
        }
    }
}

/// How long the parts of the outcome took, in brackets.
fn took(event: &Event) -> String {
    match event.seconds.words() {
        parts if parts.is_empty() => parts,
        parts => format!(" ({parts})"),
    }
}

impl History {
    /// The histories of all delegates, by name: those in `present`, and others in the audit log.
    pub fn of_all(
        present: impl Iterator<Item = (String, Present)>,
        records: impl IntoIterator<Item = Event>,
    ) -> Vec<Self> {
        let mut by_name: BTreeMap<String, (Option<Present>, Vec<Event>)> = present
            .map(|(name, present)| (name, (Some(present), Vec::new())))
            .collect();
        // A pause of the whole host belongs to no single delegate.
        for event in records.into_iter().filter(|event| !event.container.is_empty()) {
            by_name.entry(event.container.clone()).or_default().1.push(event);
        }
        let histories = by_name.into_iter();
        histories
            .map(|(name, (present, records))| Self::of(&name, present, records))
            .collect()
    }

    /// Makes the history of one delegate from its records and from `present`, which is `None` if the delegate is gone.
    pub fn of(container: &str, present: Option<Present>, records: Vec<Event>) -> Self {
        let mut events = records;
        for shown in present.iter().flat_map(|present| &present.shown) {
            if events.iter().all(|known| known.id != shown.id) {
                events.push(shown.clone());
            }
        }
        // The sort is stable: records with the same time stay in the order in which they were written.
        events.sort_by_key(|event| event.time);
        let shown = present.as_ref().map(|present| &present.workload);
        let workload = shown.or(events.last().map(|event| &event.workload));
        Self {
            container: container.to_owned(),
            workload: workload.cloned().unwrap_or_default(),
            releases: releases_of(&events, present.and_then(|it| Some((it.serving?, it.last)))),
            events,
        }
    }

    /// The releases that the delegate ran.
    pub fn served(&self) -> impl DoubleEndedIterator<Item = &Release> {
        self.releases.iter().filter(|release| release.was_served())
    }
}

/// The releases of these events. `serving` is the release in service and the number of the last attempt.
pub fn releases_of<'a>(
    events: impl IntoIterator<Item = &'a Event>,
    serving: Option<(Release, u64)>,
) -> Vec<Release> {
    let mut releases: Vec<Release> = Vec::new();
    for event in events {
        let Some(release) = Release::of(event) else {
            continue;
        };
        if release.was_served() && latest(&releases).is_some_and(|before| release.release <= before) {
            // The owner has recreated the delegate, so its numbers start again.
            releases.clear();
        }
        if let Some(before) = Release::before(event)
            && latest(&releases).is_none_or(|known| known < before.release)
        {
            releases.push(before);
        }
        releases.push(release);
    }
    let Some((serving, last)) = serving else {
        return releases;
    };
    if latest(&releases).is_some_and(|latest| latest > last) {
        releases.clear();
    }
    let is_it = |release: &&mut Release| {
        release.was_served() && (release.release, &release.image) == (serving.release, &serving.image)
    };
    match releases.iter_mut().rfind(is_it) {
        Some(release) => {
            release.is_serving = true;
            release.time = release.time.or(serving.time);
            release.image_id = release.image_id.take().or(serving.image_id);
        }
        None => releases.push(Release {
            is_serving: true,
            ..serving
        }),
    }
    releases
}

fn latest(releases: &[Release]) -> Option<u64> {
    let mut latest_first = releases.iter().rev();
    let served = latest_first.find(|release| release.was_served());
    served.map(|release| release.release)
}

//! One outcome, in the form that all its reports share.

use std::time::Duration;

use chrono::{DateTime, Utc};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::container::Request;
use crate::text::{duration, time};

/// One outcome. Fields that do not apply are absent. `docs/reference/event.schema.json` is the schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Derived from the outcome itself, so the same outcome has the same id, whichever process reports it.
    pub id: EventId,
    /// When the outcome was found, in UTC.
    #[serde(serialize_with = "time::serialize")]
    pub time: DateTime<Utc>,
    /// The host's name.
    pub host: String,
    /// The version of this program.
    pub version: String,
    /// The origin of the change.
    pub actor: Actor,
    /// The operator's request that led to it, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// The outcome.
    pub action: Action,
    /// The `DELEGATE_NAME`; empty for a pause or its end.
    pub workload: String,
    /// The delegate's container name; empty for all delegates of the host.
    pub container: String,
    /// The full id of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// The previous image reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The new image reference, or the one that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The id of the image to which `to` referred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// The id of the image to which `from` referred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_image_id: Option<String>,
    /// One word: a [`ReasonKind`](crate::rollout::reason::ReasonKind), or the kind of cause of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One sentence for people, without the names of the host and the delegate.
    pub message: String,
    /// How long the parts of the outcome took.
    #[serde(default, skip_serializing_if = "Seconds::is_empty")]
    pub seconds: Seconds,
    /// The number of the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<u64>,
    /// The last successful release before this one: the release that ran `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_release: Option<u64>,
    /// How many tasks the old container was still executing when its time was up and the engine killed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks_cut_short: Option<u64>,
    /// Whether this event reports the end of the problem that an earlier event of the same action reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resolved: bool,
}

impl Event {
    /// An event about the delegate with this container or service and `DELEGATE_NAME`, without details. `id` makes its id, beside the
    /// action.
    pub(super) fn new(
        host: &str,
        (name, workload): (&str, &str),
        (action, id): (Action, &[&str]),
        now: DateTime<Utc>,
        message: String,
    ) -> Self {
        Self {
            id: EventId::of(action, id),
            time: now,
            host: host.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            action,
            workload: workload.to_owned(),
            container: name.to_owned(),
            message,
            ..Self::default()
        }
    }

    /// The event that `notify --test` sends.
    pub fn test(host: &str, workload: &str, now: DateTime<Utc>) -> Self {
        let id = [host, &now.to_rfc3339()];
        let message = "this is a test of the notifications; nothing has happened".to_owned();
        Self {
            actor: Actor::Operator,
            ..Self::new(host, ("test", workload), (Action::Test, &id), now, message)
        }
    }

    /// The name of the delegate or host that it is about.
    pub(crate) fn subject(&self) -> &str {
        if self.container.is_empty() {
            &self.host
        } else {
            &self.container
        }
    }

    /// The same event as the result of an operator's request, if there is one.
    #[must_use]
    pub(super) fn requested(mut self, request: Option<&Request>) -> Self {
        if let Some(request) = request {
            self.actor = Actor::Operator;
            self.message.push_str(&request.to_string());
            self.request = Some(request.clone());
        }
        self
    }
}

/// How long the parts of an outcome took, in seconds, if known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    /// The pull of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<f64>,
    /// The time from the candidate's start until it was proven.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<f64>,
    /// The time from the request to stop the old container until it had stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<f64>,
    /// With stop-first: the time during which no container took tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downtime: Option<f64>,
}

impl Seconds {
    /// Whether no duration is known.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The parts and their names.
    pub fn parts(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("pull", self.pull),
            ("proof", self.proof),
            ("drain", self.drain),
            ("downtime", self.downtime),
        ]
    }

    /// The parts in words, separated by commas.
    pub(super) fn words(&self) -> String {
        let parts = self.parts().into_iter().filter_map(|(name, seconds)| {
            let span = Duration::try_from_secs_f64(seconds?).ok()?;
            Some(format!("{name} {}", duration::text(span)))
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// A duration in seconds, rounded to milliseconds.
pub(crate) fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1000.0).round() / 1000.0
}

/// The origin of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Actor {
    /// The schedule.
    #[default]
    #[serde(rename = "SYSTEM")]
    System,
    /// A person who gave a command.
    #[serde(rename = "operator")]
    Operator,
}

/// An outcome as one word, which is the same in events, metrics and settings.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantArray,
    strum::Display,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Action {
    /// The new container works, and the old one is gone or has ended.
    Upgraded,
    /// The new container failed; its image is in quarantine.
    Rejected,
    /// The new container was given up for a reason other than its image.
    Withdrawn,
    /// Like an upgrade, but to an earlier image, because an operator asked for it.
    RolledBack,
    /// An operator gave it other settings, and the new container works.
    Reconfigured,
    /// The old container serves again.
    Restored,
    /// The engine was asked to restart an unhealthy delegate.
    Restarted,
    /// A delegate in service is no longer healthy.
    HealthLost,
    /// It is healthy again.
    HealthRegained,
    /// An image that no rollback needs was removed.
    ImageRemoved,
    /// A delegate cannot be served, or can be served again.
    Skipped,
    /// The upgrader's own container was replaced.
    SelfUpgraded,
    /// An operator paused upgrades.
    Paused,
    /// An operator resumed upgrades.
    Resumed,
    /// No outcome: `notify --test` sent the event.
    #[default]
    Test,
}

impl Action {
    /// The word of the action.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An event's id: 32 hex digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(String);

impl EventId {
    /// The id of the outcome that these words describe; no other outcome has it.
    pub fn of(action: Action, what: &[&str]) -> Self {
        let words = [&[action.as_str()], what].concat();
        let hash = digest(&SHA256, words.join("\n").as_bytes());
        let first = hash.as_ref().first_chunk().copied();
        Self(format!("{:032x}", u128::from_be_bytes(first.unwrap_or_default())))
    }

    /// The id's hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

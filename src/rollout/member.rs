//! One container of a delegate, and its part in the rollout.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::reason::Reason;
use super::{History, Intent};
use crate::container::{ContainerId, ImageId, Inspected, Role, RunState, label};
use crate::health::{Health, Work};
use crate::image::{ImageName, ImageReference};

/// For how long after a restore a policy is put right. Calls last a minute at most, and then an observation must see it.
const LATE_WRITES: TimeDelta = TimeDelta::minutes(15);

/// Restarts after which a candidate counts as crashing rather than as slow.
const CRASH_LOOP: u64 = 3;
/// A removal that takes longer than this is not waited for.
const REMOVAL_TIMEOUT: TimeDelta = TimeDelta::seconds(600);

/// The image a rollback went back from: not upgraded to again while it is the published one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBackImage {
    /// Its reference.
    pub reference: ImageName,
    /// Its id.
    pub id: ImageId,
}

/// How well a container does, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Condition {
    /// Its process does not stay up.
    Crashing,
    /// It is up, and not healthy.
    Unhealthy,
    /// It is up and healthy.
    Working,
}

/// One container's part in a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its id.
    pub id: ContainerId,
    /// Its name now.
    pub name: String,
    /// Its part, read from its name.
    pub role: Role,
    /// The engine's word for its state.
    pub state: RunState,
    /// The verdict on it now.
    pub health: Health,
    /// The work that it reports, where it can be asked.
    pub work: Option<Work>,
    /// The image it runs.
    pub image_id: ImageId,
    /// That image, as the container's configuration names it.
    pub image: ImageName,
    /// The container it was created to replace.
    pub replaces: Option<ContainerId>,
    /// Whether it is a copy of its original, and no release of its own.
    pub is_copy: bool,
    /// How many times this delegate had been replaced when it was created; 0 for one we did not create.
    pub release: u64,
    /// The image of the one it replaces, as that one's configuration names it.
    pub previous_image: Option<ImageName>,
    /// The id of that image; not shown any more once its removal was tried.
    pub previous_image_id: Option<ImageId>,
    /// Its restart policy as `docker run --restart` takes it.
    pub restart_policy: String,
    /// The restart policy its predecessor had before it was asked to stop.
    pub predecessor_policy: Option<String>,
    /// How its predecessor did when it was created.
    pub predecessor_condition: Condition,
    /// Whether the engine removes it when it stops.
    pub auto_remove: bool,
    /// A fingerprint of the settings that its owner can change while it runs.
    pub settings: u64,
    /// What it was rolled back from, where `rollback` made it.
    pub rolled_back_from: Option<RolledBackImage>,
    /// Its memory limit, in bytes.
    pub memory_limit: Option<u64>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When its present or last life began.
    pub started_at: Option<DateTime<Utc>>,
    /// When its last life ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// How often the engine has restarted it.
    pub restart_count: u64,
    /// How its last life ended, in words.
    pub ending: String,
    /// Whether the engine could not start it the last time.
    pub failed_to_start: bool,
    /// How long it may take to stop.
    pub stop_timeout: Duration,
    /// What this process has seen of it.
    pub history: Box<History>,
}

impl Member {
    /// Reads a member from its document.
    pub fn read(
        container: &Inspected,
        role: Role,
        health: Health,
        stop_timeout: Duration,
        history: History,
    ) -> Self {
        Self {
            id: container.id(),
            name: container.name().to_owned(),
            role,
            state: container.state(),
            health,
            work: None,
            image_id: container.image_id(),
            image: container.image_reference().into(),
            replaces: container.label(label::REPLACES).map(ContainerId::new),
            is_copy: container.label(label::COPY) == Some("true"),
            release: container
                .label(label::RELEASE)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            previous_image: container.label(label::PREVIOUS_IMAGE).map(ImageName::from),
            previous_image_id: container.label(label::PREVIOUS_IMAGE_ID).map(ImageId::new),
            restart_policy: container.restart_policy_text(),
            predecessor_policy: container.label(label::RESTART_POLICY).map(str::to_owned),
            predecessor_condition: container
                .label(label::PREDECESSOR_CONDITION)
                .and_then(|text| text.parse().ok())
                .unwrap_or(Condition::Working),
            auto_remove: container.auto_remove(),
            settings: container.settings(),
            rolled_back_from: rolled_back_from(container),
            memory_limit: container.memory_limit(),
            created_at: container.created_at().unwrap_or_default(),
            started_at: container.started_at(),
            finished_at: container.finished_at(),
            restart_count: container.restart_count(),
            ending: crate::health::ending(container),
            failed_to_start: !container.error().is_empty(),
            stop_timeout,
            history: Box::new(history),
        }
    }

    /// Whether it was made to take this one's place.
    pub fn is_successor_of(&self, other: &Self) -> bool {
        self.replaces.as_ref() == Some(&other.id)
    }

    /// Whether its configuration names this image.
    pub fn runs(&self, reference: &ImageReference) -> bool {
        self.image.refers_to(reference)
    }

    /// Whether it has a process, or will have one again in a moment.
    pub fn is_up(&self) -> bool {
        matches!(
            self.state,
            RunState::Running | RunState::Restarting | RunState::Paused
        )
    }

    /// Whether it has never been started.
    pub fn is_created(&self) -> bool {
        self.state == RunState::Created
    }

    /// Whether it was started and has stopped for good.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, RunState::Exited | RunState::Dead)
    }

    /// Whether it is up and healthy.
    pub fn works(&self) -> bool {
        self.is_up() && self.health.is_healthy()
    }

    /// How well it does.
    pub fn condition(&self) -> Condition {
        match self.state {
            _ if self.works() => Condition::Working,
            RunState::Running | RunState::Paused => Condition::Unhealthy,
            _ => Condition::Crashing,
        }
    }

    /// Whether its owner lets it run: only then is it replaced.
    pub fn is_in_use(&self) -> bool {
        matches!(self.state, RunState::Running | RunState::Restarting)
    }

    /// Whether it has no process at the moment, but will have one again. Then it has no network that the engine could
    /// rename with it, and the engine refuses: it has to be stopped first.
    pub fn is_between_lives(&self) -> bool {
        self.state == RunState::Restarting
    }

    /// Whether it does not run and is left for us to remove: what the engine is taking away needs no help.
    pub fn is_removable(&self) -> bool {
        !self.is_up() && self.state != RunState::Removing
    }

    /// Whether it is still there once it has stopped. One that was started with `--rm` vanishes.
    pub fn can_come_back(&self) -> bool {
        !self.auto_remove && self.state != RunState::Removing
    }

    /// Whether somebody stopped it while it had no process, which the engine's events do not tell: it has ended, although
    /// by its policy the engine starts it each time.
    pub(crate) fn was_stopped_between_lives(&self) -> bool {
        let is_always_started = matches!(self.restart_policy.as_str(), "always" | "unless-stopped");
        self.has_ended() && is_always_started && !self.failed_to_start
    }

    /// Whether the engine leaves it stopped once it stops.
    pub fn restart_is_off(&self) -> bool {
        self.restart_policy == "no"
    }
}

impl Member {
    /// Whether it is the result of a rollback from this image. By the reference alone only where that stands for one
    /// image: a mutable tag is the same reference for the image before and for the next.
    pub fn was_rolled_back_from(&self, reference: &ImageReference, id: Option<&ImageId>) -> bool {
        self.rolled_back_from.as_ref().is_some_and(|left| match id {
            Some(id) => left.id == *id,
            None => !self.runs(reference) && left.reference.refers_to(reference),
        })
    }

    /// An engine may stay in the middle of a removal for ever, as when a container was renamed at that moment.
    pub(super) fn removal_is_stuck(&self, now: DateTime<Utc>) -> bool {
        let since = self.finished_at.or(self.history.seen_since);
        let too_long = since.is_some_and(|since| now - since > REMOVAL_TIMEOUT);
        self.state == RunState::Removing && too_long
    }

    /// How its last life ended, or goes on, in words.
    pub(super) fn end(&self) -> String {
        match self.state {
            RunState::Paused => "paused".to_owned(),
            _ => self.ending.clone(),
        }
    }

    /// Whether it was proven before the old one gave up the name: it was running by then, and still lives that life.
    /// In a stop-first replacement it starts later, and after a reboot it has to prove itself again.
    pub(super) fn was_proven_before(&self, old: &Self) -> bool {
        self.state == RunState::Running
            && old.is_up()
            && self.started_at.is_some()
            && self.started_at < old.retired_at()
    }

    /// Whether it lives again since that one failed, and for not so long that its owner must have changed its policy: a
    /// lost one may be the work of another upgrader, whose call was on its way when this one restored the delegate.
    pub(super) fn was_restored_lately(&self, failed: &Self, now: DateTime<Utc>) -> bool {
        let restored = self.started_at.filter(|started| *started > failed.created_at);
        restored.is_some_and(|restored| now - restored < LATE_WRITES)
    }

    /// The restart policy that its predecessor had before it was asked to stop, unless that was `no`.
    pub(super) fn predecessor_restarts(&self) -> Option<&str> {
        let policy = self.predecessor_policy.as_deref();
        policy.filter(|policy| *policy != "no")
    }

    /// When it gave up the name, to the second, read from its new name.
    pub(super) fn retired_at(&self) -> Option<DateTime<Utc>> {
        let Role::Draining { since } = self.role else {
            return None;
        };
        Some(DateTime::from_timestamp(since, 0).unwrap_or_default())
    }

    /// Since when it is to stop: since it was asked to, or at least since it gave up the name for that.
    pub fn stopping_since(&self) -> Option<DateTime<Utc>> {
        let renamed = match self.role {
            Role::Withdrawn { since } => DateTime::from_timestamp(since, 0),
            _ => self.retired_at(),
        };
        self.history.stop_requested_at.or(renamed)
    }

    /// Whether it lives, or has lived, another life than the one that the rollout ended.
    ///
    /// That one began before its name was given up, and before the candidate was created: the first is read from its
    /// name, to the second, the other from the engine's own clock. An engine that restarted, or a crash, may have begun
    /// another life in between, and that one was ended too.
    pub(super) fn restarted_since_retired(&self, successor: Option<&Self>) -> bool {
        let retired = self.retired_at().map(|retired| retired + TimeDelta::seconds(1));
        let ended = successor.map(|successor| successor.created_at).max(retired);
        // A clock that was set back makes its only life look later; one that has never ended has no other.
        let is_later = ended.is_some() && self.finished_at.is_some() && self.started_at > ended;
        self.history.stop_requested_at.is_none() && (self.history.restarted_since_stop || is_later)
    }

    /// How often the engine has restarted it. The engine forgets that when a container is stopped.
    pub(super) fn restarts(&self) -> u64 {
        self.restart_count.max(self.history.max_restart_count)
    }

    /// Whether it crashes, rather than being slow. Restarts that have a common cause are not counted.
    pub(super) fn is_crash_looping(&self) -> bool {
        self.restarts().saturating_sub(self.history.excused_restarts) >= CRASH_LOOP
    }

    /// Whether it is a candidate that was about to be rejected for its crashes, and lost its policy first: a common cause
    /// that is seen only then, or a life that it began meanwhile, does not give that back.
    pub(super) fn was_given_up(&self) -> bool {
        let lost_its_policy = self.restart_is_off() && self.predecessor_restarts().is_some();
        self.role == Role::Candidate && !self.auto_remove && lost_its_policy && self.restarts() >= CRASH_LOOP
    }

    /// Why nothing is replaced where the desired image is the one that runs.
    pub(super) fn unchanged_reason(&self, reference: &ImageReference, intent: Intent) -> Reason {
        let image = reference.to_string();
        match &self.rolled_back_from {
            Some(left) if intent == Intent::Rollback => Reason::RolledBack {
                image: left.reference.to_string(),
                to: self.image.to_string(),
            },
            _ if self.runs(reference) => Reason::UpToDate { image },
            _ => Reason::SameImage { image },
        }
    }

    /// Why it does not get the image it was rolled back from.
    pub(super) fn rolled_back_reason(&self, reference: &ImageReference) -> Reason {
        Reason::RolledBack {
            image: reference.to_string(),
            to: self.image.to_string(),
        }
    }
}

fn rolled_back_from(container: &Inspected) -> Option<RolledBackImage> {
    Some(RolledBackImage {
        reference: container.label(label::ROLLED_BACK_FROM)?.into(),
        id: ImageId::new(container.label(label::ROLLED_BACK_FROM_ID)?),
    })
}

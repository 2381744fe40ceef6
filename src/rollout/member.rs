//! One container of a delegate, and its part in the rollout.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::pace::REMOVAL_TIMEOUT;
use super::reason::{Reason, next_step};
use super::{History, Intent};
use crate::container::{ContainerId, ImageId, Inspected, Request, Role, RunState, label};
use crate::health::{Health, Work};
use crate::image::{ImageName, ImageReference};

/// An image, as recorded in a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedImage {
    /// Its reference.
    pub reference: ImageName,
    /// Its id.
    pub id: ImageId,
}

impl RememberedImage {
    fn read(container: &Inspected, reference: &str, id: &str) -> Option<Self> {
        Some(Self {
            reference: container.label(reference)?.into(),
            id: ImageId::new(container.label(id)?),
        })
    }
}

/// The current or last life of a container, as the engine shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Life {
    /// When it started; `None` for a container that was never started.
    pub started_at: Option<DateTime<Utc>>,
    /// When the last completed life ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// How often the engine has restarted the container. A stop resets this count.
    pub restart_count: u64,
    /// How the last life ended.
    pub ending: String,
    /// Whether someone stopped it: Docker would have restarted it after any other end, and has not restarted itself since.
    pub was_stopped: bool,
}

/// Which setting determines how long a container may take to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum StopTimeoutSource {
    /// The setting.
    #[strum(to_string = "CONTAINER_STOP_TIMEOUT")]
    Setting,
    /// The container's own time-out, because it is longer.
    #[strum(to_string = "its own stop timeout, which is longer than CONTAINER_STOP_TIMEOUT")]
    Own,
    /// The container's own time-out is `-1`, which means no limit. We stop waiting after thirty days.
    #[strum(to_string = "its own stop timeout, which has no end")]
    Endless,
    /// Its owner's label.
    #[strum(to_string = "its label io.delegate-upgrader.stop-timeout")]
    Label,
    /// The maximum, because its own time-out or its label is longer.
    #[strum(to_string = "MAX_STOP_TIMEOUT, though it asks for more itself")]
    Bound,
}

/// One container's part in a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its id.
    pub id: ContainerId,
    /// Its name now.
    pub name: String,
    /// Its role, read from its name.
    pub role: Role,
    /// The engine's word for its state.
    pub state: RunState,
    /// Its current health.
    pub health: Health,
    /// The work that it reports, if it can be asked.
    pub work: Option<Work>,
    /// The image it runs.
    pub image_id: ImageId,
    /// That image, as the container's configuration names it.
    pub image: ImageName,
    /// The container it was created to replace.
    pub replaces: Option<ContainerId>,
    /// Whether it is a copy of its original rather than a release of its own.
    pub is_copy: bool,
    /// The number of its attempt; 0 if we did not create it.
    pub release: u64,
    /// The release of the container it replaces.
    pub previous_release: u64,
    /// The image of the container it replaces.
    pub previous: Option<RememberedImage>,
    /// The images that the containers before it ran, the latest first, as many as `KEEP_IMAGES` says.
    pub former_images: Vec<ImageId>,
    /// The images before those, until their removal has been tried.
    pub outdated_images: Vec<ImageId>,
    /// Its restart policy as `docker run --restart` takes it.
    pub restart_policy: String,
    /// Whether Docker removes it once it has ended, since it was started with `--rm`.
    pub vanishes: bool,
    /// Whether this program removes it once it has ended, since it replaces a delegate that had `--rm`.
    pub emulates_auto_remove: bool,
    /// A fingerprint of the settings that its owner can change while it runs.
    pub settings: String,
    /// The fingerprint of the container that it replaces, taken when this one was created.
    pub fingerprint: Option<String>,
    /// The image it was rolled back from, if `rollback` created it.
    pub rolled_back_from: Option<RememberedImage>,
    /// The names of the settings in which it differs from the container that it replaces, if `reconfigure` created it.
    pub reconfigured: Option<String>,
    /// The operator's request that led to it, if there was one.
    pub request: Option<Request>,
    /// Its memory limit, in bytes.
    pub memory_limit: Option<u64>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Its current or last life.
    pub life: Life,
    /// How long it may take to stop.
    pub stop_timeout: Duration,
    /// The setting, option or label that sets this time.
    pub stop_timeout_source: StopTimeoutSource,
    /// This process's memory of it.
    pub history: Box<History>,
}

impl Member {
    /// Reads a member from its document.
    pub fn read(
        container: &Inspected,
        role: Role,
        health: Health,
        (stop_timeout, stop_timeout_source): (Duration, StopTimeoutSource),
        history: History,
    ) -> Self {
        let number = |name| container.label(name).and_then(|text| text.parse().ok());
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
            release: number(label::RELEASE).unwrap_or_default(),
            previous_release: number(label::PREVIOUS_RELEASE).unwrap_or_default(),
            previous: RememberedImage::read(container, label::PREVIOUS_IMAGE, label::PREVIOUS_IMAGE_ID),
            former_images: Vec::new(),
            outdated_images: Vec::new(),
            restart_policy: container.restart_policy_text(),
            vanishes: container.auto_remove(),
            emulates_auto_remove: container.emulates_auto_remove(),
            settings: container.fingerprint(),
            fingerprint: container.label(label::FINGERPRINT).map(str::to_owned),
            rolled_back_from: RememberedImage::read(
                container,
                label::ROLLED_BACK_FROM,
                label::ROLLED_BACK_FROM_ID,
            ),
            reconfigured: container.label(label::RECONFIGURED).map(str::to_owned),
            request: Request::read(|name| container.label(name)),
            memory_limit: container.memory_limit(),
            created_at: container.created_at().unwrap_or_default(),
            life: Life {
                started_at: container.started_at(),
                finished_at: container.finished_at(),
                restart_count: container.restart_count(),
                ending: crate::health::ending(container),
                was_stopped: false,
            },
            stop_timeout,
            stop_timeout_source,
            history: Box::new(history),
        }
    }

    /// Whether it was created to replace this one.
    pub fn is_successor_of(&self, other: &Self) -> bool {
        self.replaces.as_ref() == Some(&other.id)
    }

    /// Whether its configuration names this image.
    pub fn runs(&self, reference: &ImageReference) -> bool {
        self.image.refers_to(reference)
    }

    /// Whether it has a process, or will have one again shortly.
    pub fn is_up(&self) -> bool {
        self.state.is_up()
    }

    /// Whether it has never been started.
    pub fn is_created(&self) -> bool {
        self.state == RunState::Created
    }

    /// Whether it was started and has stopped for good.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, RunState::Exited | RunState::Dead)
    }

    /// Whether it ended at least this long ago.
    pub(super) fn has_ended_for(&self, span: TimeDelta, now: DateTime<Utc>) -> bool {
        let is_past = |at: DateTime<Utc>| now - at >= span || at > now + span;
        self.has_ended() && self.life.finished_at.is_none_or(is_past)
    }

    /// Whether it has been down for at least this long. Only this process knows when a pause started.
    pub(super) fn has_been_down_for(&self, span: TimeDelta, now: DateTime<Utc>) -> bool {
        let since = match self.state {
            RunState::Paused => self.history.unhealthy_since.or(Some(now)),
            _ => self.life.finished_at,
        };
        since.is_none_or(|since| now - since >= span || since > now + span)
    }

    /// Whether it is up and healthy.
    pub fn works(&self) -> bool {
        self.is_up() && self.health.is_healthy()
    }

    /// Whether its owner lets it run. Otherwise it is not replaced.
    pub fn is_in_use(&self) -> bool {
        matches!(self.state, RunState::Running | RunState::Restarting)
    }

    /// Whether it has no process now but will have one again. It has no network then, so the engine refuses to rename it.
    pub fn is_between_lives(&self) -> bool {
        self.state == RunState::Restarting
    }

    /// Whether it is down and ours to remove, rather than already being removed by the engine.
    pub fn is_removable(&self) -> bool {
        !self.is_up() && self.state != RunState::Removing
    }

    /// Whether the engine restarts it by itself, after a crash or when the engine starts.
    pub(super) fn has_restart_policy(&self) -> bool {
        self.restart_policy != "no"
    }

    /// Since when it has been asked to stop, according to its name.
    pub fn stopping_since(&self) -> Option<DateTime<Utc>> {
        match self.role {
            Role::Draining { since } | Role::Withdrawn { since } => DateTime::from_timestamp(since, 0),
            _ => None,
        }
    }

    /// Whether its current life started after the time in its name, so nobody has asked that life to stop.
    pub(super) fn lives_anew(&self) -> bool {
        self.is_up() && self.life.started_at > self.stopping_since()
    }
}

impl Member {
    /// The next step for a person if it is unhealthy. A rollback cannot itself be rolled back.
    pub fn next_step(&self) -> String {
        let before = self.previous.as_ref().filter(|_| self.rolled_back_from.is_none());
        let former = self.reconfigured.as_ref().map(|_| "its former settings");
        let before = former.or(before.map(|before| before.reference.as_str()));
        next_step(&format!("docker logs {}", self.name), &self.delegate(), before)
    }

    /// Whether it is the result of a rollback from this image. The reference alone decides only if it is immutable: a mutable tag
    /// may refer to both images.
    pub fn was_rolled_back_from(&self, reference: &ImageReference, id: Option<&ImageId>) -> bool {
        self.rolled_back_from.as_ref().is_some_and(|left| match id {
            Some(id) => left.id == *id,
            None => !self.runs(reference) && left.reference.refers_to(reference),
        })
    }

    /// Whether the engine is stuck removing it, which happens if a container is renamed at that moment.
    pub(super) fn removal_is_stuck(&self, now: DateTime<Utc>) -> bool {
        let since = self.life.finished_at.or(self.history.seen_since);
        let too_long = since.is_some_and(|since| now - since > REMOVAL_TIMEOUT);
        self.state == RunState::Removing && too_long
    }

    /// Whether it ended by itself this long ago, or its removal is stuck. A process that has just started cannot know who ended
    /// it, so it gives others this long to start it again, as after a backup that stopped everything.
    pub(super) fn is_over_for(&self, span: TimeDelta, now: DateTime<Utc>) -> bool {
        let is_new = |seen: DateTime<Utc>| now - seen < span;
        let may_return = self.is_kept_up() && self.history.seen_since.is_some_and(is_new);
        let is_over = !self.life.was_stopped && !may_return && self.has_ended_for(span, now);
        is_over || self.removal_is_stuck(now)
    }

    /// Whether Docker restarts it after any end but a stop.
    fn is_kept_up(&self) -> bool {
        matches!(self.restart_policy.as_str(), "always" | "unless-stopped")
    }

    /// Notes whether someone stopped it. `unbroken_since` is a moment since which the engine is known not to have restarted.
    ///
    /// A failed start leaves an error. After its own crash the engine starts containers with `always` before it answers, but none
    /// with `unless-stopped`; for those, a restart of the engine matters. A life that ended before this process saw it may have
    /// been stopped by an earlier process.
    pub fn note_stop(&mut self, container: &Inspected, unbroken_since: Option<DateTime<Utc>>) {
        let Some(ended) = self.life.finished_at.filter(|_| self.state == RunState::Exited) else {
            return;
        };
        let was_before = |moment: Option<DateTime<Utc>>| moment.is_some_and(|moment| moment <= ended);
        self.life.was_stopped = self.is_kept_up()
            && container.error().is_empty()
            && !self.history.was_asked_to_stop
            && was_before(self.history.seen_since)
            && (self.restart_policy == "always" || was_before(unbroken_since));
    }

    /// How its last life ended, or that it continues.
    pub(super) fn end(&self) -> String {
        match self.state {
            RunState::Paused => "paused".to_owned(),
            _ => self.life.ending.clone(),
        }
    }

    /// The delegate's name, which is that of its container in service.
    pub(super) fn delegate(&self) -> String {
        Role::parse(&self.name).0.to_owned()
    }

    /// How often the engine has restarted it.
    pub(super) fn restarts(&self) -> u64 {
        self.life.restart_count.max(self.history.max_restart_count)
    }

    /// Its image, and the settings that are new with it: what was tried.
    pub fn tried(&self) -> String {
        match &self.reconfigured {
            Some(settings) => format!("{} with the new settings {settings}", self.image),
            None => self.image.to_string(),
        }
    }

    /// Why nothing is replaced if the desired image already runs.
    pub(super) fn unchanged_reason(&self, reference: &ImageReference, intent: &Intent) -> Reason {
        let image = reference.to_string();
        match &self.previous {
            Some(left) if matches!(intent, Intent::Rollback(_)) => self.rolled_back_reason(&left.reference),
            _ if self.runs(reference) => Reason::UpToDate { image },
            _ => Reason::SameImage { image },
        }
    }

    /// Why it does not get the image it was rolled back from.
    pub(super) fn rolled_back_reason(&self, left: &impl ToString) -> Reason {
        Reason::RolledBack {
            delegate: self.delegate(),
            image: left.to_string(),
            to: self.image.to_string(),
        }
    }
}

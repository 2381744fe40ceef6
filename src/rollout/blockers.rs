//! Why no upgrade of a workload starts now: one list for containers, services and Deployments. The run decides by it, and
//! `plan`, `status`, the page, metrics and `doctor` show it. docs/development/blockers.md is written from the table here.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::reason::Reason;
use super::{Desired, Intent, OwnerSettings};
use crate::config::Timing;
use crate::host::hold::Holds;
use crate::image::{Expiry, ImageReference};
use crate::text::duration::span;

/// A reason why no upgrade starts now.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocker {
    /// Why, with the way out.
    pub reason: Reason,
    /// When it ends by itself, if that is known.
    pub until: Option<DateTime<Utc>>,
    /// Its kind, which says who may step over it.
    pub kind: BlockerKind,
}

/// The kind of a blocker, which says who may step over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BlockerKind {
    /// It cannot or must not be upgraded as it is: nobody steps over that.
    Nature,
    /// Which image it should run is not known: nobody.
    Question,
    /// It runs what is wanted: nobody, and nothing after it counts.
    Current,
    /// Its owner or the administrator does not want the image: `rollback` steps over it.
    Wish,
    /// The image failed here, or its owner left it, before this run: `retry` and `rollback` step over that.
    Evidence,
    /// This run found it: nobody steps over that; the next run tries again.
    Attempt,
    /// It ends by itself or by a command: `retry` and `rollback`.
    Time,
    /// Another container comes first: nobody.
    Turn,
}

impl BlockerKind {
    /// Whether who wants the image so steps over it.
    fn yields_to(self, intent: Intent) -> bool {
        match intent {
            Intent::Upgrade => false,
            Intent::Retry => matches!(self, Self::Evidence | Self::Time),
            Intent::Rollback => matches!(self, Self::Wish | Self::Evidence | Self::Time),
        }
    }
}

/// The word of the present run, and of this process's memory, on the upgrade of one workload: each is a reason not to start it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// It was given up until the next run.
    pub given_up: Option<Reason>,
    /// The image does not replace the one that runs.
    pub unsuitable: Option<Reason>,
    /// The image could not be pulled.
    pub pull: Option<Reason>,
    /// Another tool recreates it after each upgrade.
    pub recreated: Option<Reason>,
    /// Its settings change during each attempt.
    pub unsettled: Option<Reason>,
    /// Another replica failed.
    pub halted: Option<Reason>,
    /// Another replica is being replaced.
    pub replica: Option<Reason>,
    /// Enough others are being replaced.
    pub others: Option<Reason>,
    /// No scheduled run has come yet, only a start.
    pub awaits_run: bool,
    /// When the next one starts, if that is known.
    pub next_run: Option<DateTime<Utc>>,
}

impl RunFacts {
    /// Why a candidate is finished with the image that it has, whatever is wanted.
    pub(crate) fn keeps_candidate(&self, desired: &Desired) -> Option<Reason> {
        let Desired::Image {
            reference, intent, ..
        } = desired
        else {
            return None;
        };
        let is_upgrade = *intent == Intent::Upgrade;
        let [recreated, unsettled] =
            [&self.recreated, &self.unsettled].map(|it| it.as_ref().filter(|_| is_upgrade));
        let all = [
            self.given_up.as_ref(),
            self.unsuitable.as_ref(),
            self.pull.as_ref(),
            recreated,
            unsettled,
        ];
        let schedule = || self.awaits_run.then(|| awaiting_schedule(reference));
        all.into_iter().flatten().next().cloned().or_else(schedule)
    }
}

/// All that the list depends on. A reason is one that the workload or its surroundings give.
#[derive(Clone, Debug)]
pub(crate) struct Start<'a> {
    pub(crate) desired: &'a Desired,
    pub(crate) left_alone: Option<Reason>,
    pub(crate) health_only: bool,
    pub(crate) in_other_hands: Option<Reason>,
    pub(crate) not_running: Option<Reason>,
    /// The image that is wanted is the one that runs.
    pub(crate) current: Option<Reason>,
    pub(crate) obstacle: Option<Reason>,
    pub(crate) name_taken: Option<Reason>,
    pub(crate) not_beside: Option<Reason>,
    pub(crate) rejected_meanwhile: Option<Reason>,
    pub(crate) candidate_gone: Option<Reason>,
    pub(crate) rolled_back: Option<Reason>,
    pub(crate) quarantined: Option<Reason>,
    pub(crate) drains: Option<Reason>,
    /// The settings on its owner's labels.
    pub(crate) limits: &'a OwnerSettings,
    /// The administrator's settings.
    pub(crate) timing: &'a Timing,
    /// The holds that the engine remembers, if they were read, or why they cannot be.
    pub(crate) holds: Option<&'a Result<Holds, String>>,
    pub(crate) run: &'a RunFacts,
    /// How long the version that runs is supported.
    pub(crate) expiry: Option<Expiry>,
    pub(crate) now: DateTime<Utc>,
}

/// The name of a row, its sentence, and its function.
type Row = (&'static str, &'static str, fn(&Start<'_>) -> Option<Reason>);

/// Declares the table: the rows of a kind, each with its sentence and its function.
macro_rules! table {
    ($($kind:ident { $(#[doc = $sentence:literal] $row:ident: $find:expr;)+ })+) => {
        const ROWS: &[(BlockerKind, &[Row])] = &[$((BlockerKind::$kind, &[$((stringify!($row), $sentence, $find)),+])),+];
    };
}

table! {
    Nature {
        /// Its owner opted it out; it belongs to another account or to a service; its kind is never upgraded. Ends the list.
        left_alone: |start| start.left_alone.clone();
        /// `DISABLE_AUTO_UPGRADE` permits health checks only. Ends the list.
        health_only: |start| start.health_only.then(|| Reason::HealthOnly { published: start.desired.published() });
        /// Compose, or someone else through the orchestrator, is changing it.
        in_other_hands: |start| start.in_other_hands.clone();
        /// Its owner stopped or paused it, and this run has not failed.
        not_running: |start| start.not_running.clone();
    }
    Attempt {
        /// An attempt of this run failed.
        given_up: |start| start.run.given_up.clone();
    }
    Question {
        /// Which image it should run is not asked yet, is being asked, could not be answered, or cannot be compared.
        unknown: |start| start.kept(|reason| !reason.kind().is_current() && !reason.kind().is_unwanted());
    }
    Current {
        /// It runs the image that is wanted. Ends the list.
        current: |start| start.current.clone().or_else(|| start.kept(|reason| reason.kind().is_current()));
    }
    Wish {
        /// `MAX_VERSION` or `REQUIRE_DIGEST` forbids the image; or it is a custom image or another product.
        unwanted: |start| start.kept(|reason| reason.kind().is_unwanted());
        /// A label of its owner cannot be read.
        invalid_label: |start| start.invalid_label();
        /// A label of its owner keeps it at another version.
        pinned: |start| start.pinned();
    }
    Nature {
        /// It cannot be recreated as it is.
        obstacle: |start| start.obstacle.clone();
        /// Another container, which is not ours, has a name that is needed.
        name_taken: |start| start.name_taken.clone();
        /// Start-first is required, and two containers cannot run at once.
        not_beside: |start| start.not_beside.clone();
    }
    Attempt {
        /// Another process rejected the image during this run.
        rejected_meanwhile: |start| start.rejected_meanwhile.clone();
        /// The candidate that this run created is gone.
        candidate_gone: |start| start.candidate_gone.clone();
        /// The image is for another platform.
        unsuitable: |start| start.run.unsuitable.clone();
        /// The image could not be pulled.
        pull_failed: |start| start.run.pull.clone();
    }
    Evidence {
        /// Someone rolled back from the image.
        rolled_back: |start| start.rolled_back.clone();
        /// The image failed here, and its quarantine lasts.
        quarantined: |start| start.quarantined.clone();
        /// Another tool recreated it right after each of the last upgrades.
        recreated: |start| start.run.recreated.clone();
        /// Its settings changed during each of the last attempts.
        unsettled: |start| start.run.unsettled.clone();
    }
    Attempt {
        /// The image failed on another replica.
        halted: |start| start.run.halted.clone();
    }
    Time {
        /// A label of its owner puts it off.
        snoozed: |start| start.snoozed();
        /// An operator paused it, or the host.
        paused: |start| start.paused();
        /// `UPGRADE_DELAY` or `UPGRADE_WAVE` counts from the first sight of the image, which cannot be read.
        first_seen_unknown: |start| start.first_seen_unknown();
        /// `UPGRADE_DELAY` is not over.
        delayed: |start| start.delayed();
        /// The turn of this host in `UPGRADE_WAVE` has not come.
        awaiting_wave: |start| start.awaiting_wave();
        /// The window is closed.
        outside_window: |start| start.outside_window();
        /// No scheduled run has come since the start.
        schedule: |start| start.run.awaits_run.then(|| start.image().map(awaiting_schedule)).flatten();
    }
    Turn {
        /// Other containers of the delegate finish their tasks first.
        drains: |start| start.drains.clone();
        /// Another replica is being replaced, or, for the upgrader itself, any delegate.
        replica: |start| start.run.replica.clone();
        /// Ten other containers prove themselves.
        others: |start| start.run.others.clone();
    }
}

/// The table: the kind, the name and the sentence of each row, in the order in which they are asked.
pub fn table() -> impl Iterator<Item = (BlockerKind, &'static str, &'static str)> {
    let rows = ROWS
        .iter()
        .flat_map(|(kind, rows)| rows.iter().map(move |row| (*kind, row)));
    rows.map(|(kind, (name, sentence, _))| (kind, *name, sentence.trim()))
}

impl<'a> Start<'a> {
    /// Nothing is in the way but what these say.
    pub(crate) fn new(
        desired: &'a Desired,
        limits: &'a OwnerSettings,
        timing: &'a Timing,
        run: &'a RunFacts,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            desired,
            left_alone: None,
            health_only: false,
            in_other_hands: None,
            not_running: None,
            current: None,
            obstacle: None,
            name_taken: None,
            not_beside: None,
            rejected_meanwhile: None,
            candidate_gone: None,
            rolled_back: None,
            quarantined: None,
            drains: None,
            limits,
            timing,
            holds: None,
            run,
            expiry: None,
            now,
        }
    }

    /// The list, in the order of the table: empty where the upgrade starts.
    pub(crate) fn blockers(&self) -> Vec<Blocker> {
        let intent = match self.desired {
            Desired::Image { intent, .. } => *intent,
            Desired::Keep(_) => Intent::Upgrade,
        };
        let mut blockers = Vec::new();
        for (kind, rows) in ROWS.iter().filter(|(kind, _)| !kind.yields_to(intent)) {
            for (name, _, find) in *rows {
                let Some(reason) = find(self) else { continue };
                let schedule = self.run.next_run.filter(|_| *name == "schedule");
                let until = reason.ends_at().or(schedule);
                blockers.push(Blocker {
                    reason,
                    until,
                    kind: *kind,
                });
                if *kind == BlockerKind::Current || matches!(*name, "left_alone" | "health_only") {
                    return blockers;
                }
            }
        }
        blockers
    }

    /// When the first sight of this image is to be noted, its name: an upgrade waits so long from then on.
    pub(crate) fn unseen(&self) -> Option<&'a str> {
        match (self.holds?, self.desired) {
            (
                Ok(holds),
                Desired::Image {
                    intent: Intent::Upgrade,
                    ..
                },
            ) if self.is_staged() && holds.first_seen.is_none() && self.pinned().is_none() => {
                Some(&holds.image)
            }
            _ => None,
        }
    }

    /// Whether an upgrade waits from the first sight of its image on.
    pub(crate) fn is_staged(&self) -> bool {
        !self.timing.delay.is_zero() || self.timing.wave.is_some()
    }

    /// The wanted image, if it is another one.
    fn image(&self) -> Option<&'a ImageReference> {
        match self.desired {
            Desired::Image { reference, .. } => Some(reference),
            Desired::Keep(_) => None,
        }
    }

    fn name(&self) -> Option<String> {
        self.image().map(ToString::to_string)
    }

    /// Why no image is wanted, if the reason says so.
    fn kept(&self, is_such: impl FnOnce(&Reason) -> bool) -> Option<Reason> {
        match self.desired {
            Desired::Keep(reason) => is_such(reason).then(|| reason.clone()),
            Desired::Image { .. } => None,
        }
    }

    fn invalid_label(&self) -> Option<Reason> {
        let label = self.limits.invalid.clone()?;
        let image = self.name()?;
        Some(Reason::InvalidLabel { image, label })
    }

    fn pinned(&self) -> Option<Reason> {
        let pin = self.limits.pin.clone()?;
        let image = self.image().filter(|image| !pin.permits(image))?.to_string();
        Some(Reason::Pinned { image, pin })
    }

    fn snoozed(&self) -> Option<Reason> {
        let until = self.limits.snooze_until.filter(|until| *until > self.now)?;
        let image = self.name()?;
        Some(Reason::Snoozed { image, until })
    }

    /// A pause that cannot be read is none.
    fn paused(&self) -> Option<Reason> {
        let pause = self
            .holds()?
            .pause
            .as_ref()
            .filter(|pause| pause.lasts(self.now))?;
        Some(Reason::Paused {
            image: self.name()?,
            delegate: pause.delegate.clone(),
            until: pause.until,
        })
    }

    fn first_seen_unknown(&self) -> Option<Reason> {
        let problem = self.holds?.as_ref().err().filter(|_| self.is_staged())?.clone();
        let image = self.name()?;
        Some(Reason::FirstSeenUnknown { image, problem })
    }

    fn delayed_until(&self) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
        let first_seen = self.holds()?.first_seen.unwrap_or(self.now);
        Some((first_seen, first_seen + span(self.timing.delay)))
    }

    fn delayed(&self) -> Option<Reason> {
        let (first_seen, until) = self.delayed_until().filter(|(_, until)| *until > self.now)?;
        Some(Reason::Delayed {
            image: self.name()?,
            first_seen,
            until,
        })
    }

    fn awaiting_wave(&self) -> Option<Reason> {
        let wave = self.timing.wave.filter(|_| !self.is_urgent())?;
        let until = self.delayed_until()?.1 + wave.wait(self.holds()?.place);
        let image = self.name().filter(|_| until > self.now)?;
        Some(Reason::AwaitingWave { image, wave, until })
    }

    /// The owner's window takes precedence over the administrator's. A delegate whose version is out of support may ignore windows.
    fn outside_window(&self) -> Option<Reason> {
        let window = self.limits.window.as_ref().or(self.timing.window.as_ref())?;
        let image = self
            .name()
            .filter(|_| !self.is_urgent() && !window.is_open(self.now))?;
        Some(Reason::OutsideWindow {
            image,
            window: window.to_string(),
            until: window.next_opening(self.now),
        })
    }

    fn holds(&self) -> Option<&'a Holds> {
        self.holds?.as_ref().ok()
    }

    /// Whether it waits neither for a window nor for a wave, since its version is past its end of life.
    fn is_urgent(&self) -> bool {
        let expiry = self.expiry.as_ref();
        let is_expired = expiry.is_some_and(|expiry| self.now.date_naive() > expiry.life_ends);
        self.timing.now_if_expired && is_expired
    }
}

fn awaiting_schedule(image: &ImageReference) -> Reason {
    let published = Some(image.to_string());
    Reason::AwaitingSchedule { published }
}

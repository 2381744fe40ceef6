//! Why no upgrade of a workload starts now: one list for containers, services and Deployments. The run decides by it, and
//! `plan`, `status`, the page, metrics and `doctor` show it. docs/development/blockers.md is written from the table here.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::reason::{Reason, ReasonKind};
use super::{Desired, Intent, OwnerSettings, Policy};
use crate::host::hold::Holds;
use crate::image::{Expiry, ImageReference};
use crate::text::duration::span;
use crate::text::time;

/// A reason not to start an upgrade now.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocker {
    /// The reason, with the way out.
    pub reason: Reason,
    /// When it ends by itself, if known.
    pub until: Option<DateTime<Utc>>,
    /// Its kind, which determines who may override it.
    pub kind: BlockerKind,
}

/// The word of its reason, which `explain` accepts, and the sentence.
impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.kind(), self.reason)
    }
}

impl Serialize for Blocker {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("reason", &self.reason.kind())?;
        fields.serialize_entry("kind", &self.kind)?;
        fields.serialize_entry("message", &self.reason.to_string())?;
        if let Some(until) = self.until {
            fields.serialize_entry("until", &time::text(until))?;
        }
        fields.end()
    }
}

/// The kind of a blocker, which determines who may override it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BlockerKind {
    /// It cannot or must not be upgraded as it is. Nobody overrides that.
    Nature,
    /// The image that it should run is unknown. Nobody overrides that.
    Question,
    /// It runs the wanted image. Nobody overrides that, and later rows do not count.
    Current,
    /// Its owner or the administrator does not want the image. `rollback` overrides that.
    Wish,
    /// The image failed here, or its owner left it, before this run. `retry` and `rollback` override that.
    Evidence,
    /// This run found it. Nobody overrides that; the next run tries again.
    Attempt,
    /// It ends by itself or by a command. `retry` and `rollback` override that.
    Time,
    /// Another container comes first. Nobody overrides that.
    Turn,
}

impl BlockerKind {
    /// Whether an upgrade with this intent overrides it.
    fn yields_to(self, intent: &Intent) -> bool {
        match intent {
            Intent::Report | Intent::Upgrade => false,
            Intent::Retry(_) => matches!(self, Self::Evidence | Self::Time),
            Intent::Rollback(_) | Intent::Reconfigure(..) => {
                matches!(self, Self::Wish | Self::Evidence | Self::Time)
            }
        }
    }
}

/// Reasons, from the current run and this process's memory, not to start the upgrade of one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// The run gave it up.
    pub given_up: Option<Reason>,
    /// The image cannot replace the running one.
    pub unsuitable: Option<Reason>,
    /// The image could not be pulled.
    pub pull: Option<Reason>,
    /// Another tool recreates it after each upgrade.
    pub recreated: Option<Reason>,
    /// Its settings change during each attempt.
    pub unsettled: Option<Reason>,
    /// Another replica failed.
    pub halted: Option<Reason>,
    /// A replica that runs the wanted image has not run it for long enough, or is unhealthy.
    pub soaking: Option<Reason>,
    /// An alert that holds upgrades back fires, or it is unknown whether one does.
    pub alerts: Option<Reason>,
    /// Another replica is being replaced.
    pub replica: Option<Reason>,
    /// Enough others are already being replaced.
    pub others: Option<Reason>,
    /// When the next scheduled run starts, if known.
    pub next_run: Option<DateTime<Utc>>,
}

impl RunFacts {
    /// Why a candidate keeps its image, whatever is wanted.
    pub(crate) fn keeps_candidate(&self, desired: &Desired) -> Option<Reason> {
        let (.., intent) = desired.wanted()?;
        let always = self.given_up.iter().chain(&self.unsuitable).chain(&self.pull);
        let of_upgrades = self.recreated.iter().chain(&self.unsettled);
        let of_upgrades = of_upgrades.filter(|_| !intent.is_requested());
        let first = always.chain(of_upgrades).next().cloned();
        first.or_else(|| awaiting_schedule(desired))
    }
}

/// The objections to an upgrade from a workload itself or its surroundings: its answers to the rows that [`Start`] leaves open.
pub(crate) trait Surroundings {
    fn ask(&self, row: BlockerRow) -> Option<Reason>;
}

/// The input of the list.
pub(crate) struct Start<'a> {
    pub(crate) own: &'a dyn Surroundings,
    pub(crate) desired: &'a Desired,
    /// The settings on its owner's labels.
    pub(crate) limits: &'a OwnerSettings,
    pub(crate) policy: &'a Policy,
    /// The holds in the engine's records, or why they cannot be read.
    pub(crate) holds: Option<&'a Result<Holds, String>>,
    pub(crate) run: &'a RunFacts,
    /// How long the running version is supported.
    pub(crate) expiry: Option<Expiry>,
    pub(crate) now: DateTime<Utc>,
}

/// Declares the table: the rows of each kind, with their sentences.
macro_rules! table {
    ($($kind:ident { $(#[doc = $sentence:literal] $row:ident)+ })+) => {
        /// A row of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
        #[strum(serialize_all = "snake_case")]
        pub(crate) enum BlockerRow { $($(#[doc = $sentence] $row),+),+ }

        const ROWS: &[(BlockerKind, &[(BlockerRow, &str)])] =
            &[$((BlockerKind::$kind, &[$((BlockerRow::$row, $sentence)),+])),+];
    };
}

table! {
    Nature {
        /// Its owner opted it out; it belongs to another account or to a service; its kind is never upgraded. Ends the list.
        LeftAlone
        /// `DISABLE_AUTO_UPGRADE` permits health checks only. Ends the list.
        HealthOnly
        /// Compose, or someone else through the orchestrator, is changing it.
        InOtherHands
        /// Its owner stopped or paused it, and this run has not failed.
        NotRunning
    }
    Attempt {
        /// An attempt of this run failed.
        GivenUp
    }
    Question {
        /// Which image it should run is not asked yet, is being asked, could not be answered, or cannot be compared.
        Unknown
    }
    Current {
        /// It runs the image that is wanted. Ends the list.
        Current
    }
    Wish {
        /// `MAX_VERSION` or `REQUIRE_DIGEST` forbids the image; or it is a custom image or another product.
        Unwanted
        /// A label of its owner cannot be read.
        InvalidLabel
        /// A label of its owner keeps it at another version.
        Pinned
    }
    Nature {
        /// It cannot be recreated as it is.
        Obstacle
        /// Another container, which is not ours, has a name that is needed.
        NameTaken
        /// Start-first is required, and two containers cannot run at once.
        NotBeside
    }
    Attempt {
        /// Another process rejected the image during this run.
        RejectedMeanwhile
        /// The candidate that this run created is gone.
        CandidateGone
        /// The image is for another platform.
        Unsuitable
        /// The image could not be pulled.
        PullFailed
    }
    Evidence {
        /// Someone rolled back from the image.
        RolledBack
        /// The image failed here, and is still in quarantine.
        Quarantined
        /// Another tool recreated it right after each of the last upgrades.
        Recreated
        /// Its settings changed during each of the last attempts.
        Unsettled
    }
    Attempt {
        /// The image failed on another replica.
        Halted
    }
    Time {
        /// A label of its owner puts it off.
        Snoozed
        /// An operator paused it, or the host.
        Paused
        /// `UPGRADE_DELAY` or `UPGRADE_WAVE` counts from the first sight of the image, which cannot be read.
        FirstSeenUnknown
        /// `UPGRADE_DELAY` is not over.
        Delayed
        /// The turn of this host in `UPGRADE_WAVE` has not come.
        AwaitingWave
        /// The window is closed.
        OutsideWindow
        /// `UPGRADE_SOAK` is not over for a replica that runs the image, or that replica is unhealthy.
        Soaking
        /// An alert of `HOLD_ON_ALERTS` fires, or Prometheus does not say whether one does.
        HeldByAlerts
        /// No scheduled run has come since the start.
        Schedule
    }
    Turn {
        /// Other containers of the delegate finish their tasks first.
        Drains
        /// Another replica is being replaced, or, for the upgrader itself, any delegate.
        Replica
        /// Ten other containers prove themselves.
        Others
    }
}

/// The table in order: the kind, name and sentence of each row.
pub fn table() -> impl Iterator<Item = (BlockerKind, &'static str, &'static str)> {
    let rows = ROWS
        .iter()
        .flat_map(|(kind, rows)| rows.iter().map(move |row| (*kind, row)));
    rows.map(|(kind, (row, sentence))| (kind, row.into(), sentence.trim()))
}

impl<'a> Start<'a> {
    /// The list in the order of the table; empty if the upgrade starts.
    pub(crate) fn blockers(&self) -> Vec<Blocker> {
        let wanted = self.desired.wanted();
        let intent = wanted.map_or(&Intent::Upgrade, |(.., intent)| intent);
        let mut blockers = Vec::new();
        for (kind, rows) in ROWS.iter().filter(|(kind, _)| !kind.yields_to(intent)) {
            for (row, _) in *rows {
                let Some(reason) = self.ask(*row) else { continue };
                let schedule = self.run.next_run.filter(|_| *row == BlockerRow::Schedule);
                let until = reason.ends_at().or(schedule);
                blockers.push(Blocker {
                    reason,
                    until,
                    kind: *kind,
                });
                if *kind == BlockerKind::Current
                    || matches!(row, BlockerRow::LeftAlone | BlockerRow::HealthOnly)
                {
                    return blockers;
                }
            }
        }
        blockers
    }

    /// The reason of a row, if it applies.
    fn ask(&self, row: BlockerRow) -> Option<Reason> {
        let (run, timing, now) = (self.run, &self.policy.timing, self.now);
        let kept = |is_such: fn(ReasonKind) -> bool| match self.desired {
            Desired::Keep(reason) if is_such(reason.kind()) => Some(reason.clone()),
            _ => None,
        };
        let name = || self.image().map(ToString::to_string);
        Some(match row {
            BlockerRow::HealthOnly => {
                let published = self.policy.health_only.then(|| self.desired.published())?;
                Reason::HealthOnly { published }
            }
            BlockerRow::GivenUp => run.given_up.clone()?,
            BlockerRow::Unknown => kept(|kind| !kind.is_current() && !kind.is_unwanted())?,
            BlockerRow::Current => return self.own.ask(row).or_else(|| kept(ReasonKind::is_current)),
            BlockerRow::Unwanted => kept(ReasonKind::is_unwanted)?,
            BlockerRow::InvalidLabel => Reason::InvalidLabel {
                label: self.limits.invalid.clone()?,
                image: name()?,
            },
            BlockerRow::Pinned => {
                let pin = self.limits.pin.clone()?;
                let image = self.image().filter(|image| !pin.includes(image))?.to_string();
                Reason::Pinned { image, pin }
            }
            BlockerRow::Unsuitable => run.unsuitable.clone()?,
            BlockerRow::PullFailed => run.pull.clone()?,
            BlockerRow::Recreated => run.recreated.clone()?,
            BlockerRow::Unsettled => run.unsettled.clone()?,
            BlockerRow::Halted => run.halted.clone()?,
            BlockerRow::Snoozed => Reason::Snoozed {
                until: self.limits.snooze_until.filter(|until| *until > now)?,
                image: name()?,
            },
            // A pause that cannot be read does not count.
            BlockerRow::Paused => {
                let pause = self.holds()?.pause.as_ref();
                let pause = pause.filter(|pause| pause.lasts(now))?;
                Reason::Paused {
                    image: name()?,
                    delegate: pause.delegate.clone(),
                    until: pause.until,
                }
            }
            BlockerRow::FirstSeenUnknown => Reason::FirstSeenUnknown {
                problem: self.holds?.as_ref().err().filter(|_| self.is_staged())?.clone(),
                image: name()?,
            },
            BlockerRow::Delayed => {
                let (first_seen, until) = self.delayed_until().filter(|(_, until)| *until > now)?;
                let image = name()?;
                Reason::Delayed {
                    image,
                    first_seen,
                    until,
                }
            }
            BlockerRow::AwaitingWave => {
                let wave = timing.wave.filter(|_| !self.is_urgent())?;
                let until = self.delayed_until()?.1 + wave.wait(self.holds()?.place);
                let image = name().filter(|_| until > now)?;
                Reason::AwaitingWave { image, wave, until }
            }
            // The owner's window takes precedence over the administrator's.
            BlockerRow::OutsideWindow => {
                let window = self.limits.window.as_ref().or(timing.window.as_ref());
                let window = window.filter(|window| !self.is_urgent() && !window.is_open(now))?;
                Reason::OutsideWindow {
                    image: name()?,
                    window: window.to_string(),
                    until: window.next_opening(now),
                }
            }
            BlockerRow::Soaking => run.soaking.clone()?,
            BlockerRow::HeldByAlerts => run.alerts.clone()?,
            BlockerRow::Schedule => awaiting_schedule(self.desired)?,
            BlockerRow::Replica => run.replica.clone()?,
            BlockerRow::Others => run.others.clone()?,
            BlockerRow::LeftAlone
            | BlockerRow::InOtherHands
            | BlockerRow::NotRunning
            | BlockerRow::Obstacle
            | BlockerRow::NameTaken
            | BlockerRow::NotBeside
            | BlockerRow::RejectedMeanwhile
            | BlockerRow::CandidateGone
            | BlockerRow::RolledBack
            | BlockerRow::Quarantined
            | BlockerRow::Drains => return self.own.ask(row),
        })
    }

    /// The image whose first sight must be recorded, since an upgrade waits from that time on.
    pub(crate) fn unseen(&self) -> Option<&'a str> {
        let (holds, (.., intent)) = self.holds().zip(self.desired.wanted())?;
        let is_unseen = !intent.is_requested()
            && self.is_staged()
            && holds.first_seen.is_none()
            && self.ask(BlockerRow::Pinned).is_none();
        is_unseen.then_some(&holds.image)
    }

    /// Whether an upgrade waits from the first sight of its image.
    pub(crate) fn is_staged(&self) -> bool {
        !self.policy.timing.delay.is_zero() || self.policy.timing.wave.is_some()
    }

    /// The wanted image, if it is another one.
    fn image(&self) -> Option<&'a ImageReference> {
        self.desired.wanted().map(|(reference, ..)| reference)
    }

    fn delayed_until(&self) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
        let first_seen = self.holds()?.first_seen.unwrap_or(self.now);
        Some((first_seen, first_seen + span(self.policy.timing.delay)))
    }

    fn holds(&self) -> Option<&'a Holds> {
        self.holds?.as_ref().ok()
    }

    /// Whether it ignores windows and waves because its version has reached its end of life.
    fn is_urgent(&self) -> bool {
        let is_over = |expiry: Expiry| expiry.is_over(self.now.date_naive());
        self.policy.timing.now_if_expired && self.expiry.is_some_and(is_over)
    }
}

fn awaiting_schedule(desired: &Desired) -> Option<Reason> {
    let (image, _, intent) = desired.wanted()?;
    let published = Some(image.to_string());
    (*intent == Intent::Report).then_some(Reason::AwaitingSchedule { published })
}

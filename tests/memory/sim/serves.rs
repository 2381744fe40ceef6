//! No name stays without a working delegate for longer than the engine needs to start one, whatever else is broken.

use std::collections::BTreeSet;
use std::time::Duration;

use delegate_upgrader::container::Role;

use super::book::Book;
use super::hardships::START;
use super::invariants::Moments;
use super::scenario::{Kind, Way};
use super::timeline::{Shadow, Timeline, is_ours};
use kit::twin::{Cause, Operation};

/// The longest time between an act of a person or the engine on a container and the gap that follows.
const BEFORE: Duration = Duration::from_secs(15);
/// The delay that a failed call may cause.
const FAULT: Duration = Duration::from_secs(120);
/// The shortest time.
const NOW: Duration = Duration::from_nanos(1);

/// The unexcused gaps, and the distinct states that were examined.
pub(super) fn serves(
    timeline: &Timeline<'_>,
    book: &Book,
    moments: &Moments<'_>,
) -> (Vec<String>, BTreeSet<String>) {
    let mut states = BTreeSet::new();
    let mut violations = Vec::new();
    for (line, delegate) in timeline.world.scenario.delegates.iter().enumerate() {
        if delegate.way == Way::LeftAlone || delegate.is_broken {
            continue;
        }
        let name = Name {
            timeline,
            book,
            moments,
            line,
            way: delegate.way,
            shadows: timeline
                .shadows
                .iter()
                .filter(|shadow| shadow.line == line)
                .collect(),
        };
        violations.extend(name.violations(&mut states));
    }
    (violations, states)
}

/// All containers of one name.
struct Name<'a> {
    timeline: &'a Timeline<'a>,
    book: &'a Book,
    moments: &'a Moments<'a>,
    line: usize,
    way: Way,
    shadows: Vec<&'a Shadow>,
}

impl Name<'_> {
    fn violations(&self, states: &mut BTreeSet<String>) -> Vec<String> {
        let moments = self.boundaries();
        let mut violations = Vec::new();
        // The time since which no delegate has worked; the first one needs its time.
        let mut gap: Option<Duration> = None;
        let mut has_begun = false;
        let mut unexcused = Duration::ZERO;
        for (from, to) in moments.iter().zip(moments.iter().skip(1)) {
            let (from, to) = (*from, *to);
            states.insert(self.state(from));
            if self
                .shadows
                .iter()
                .any(|shadow| self.timeline.works(shadow, from))
            {
                (gap, has_begun, unexcused) = (None, true, Duration::ZERO);
                continue;
            }
            let start = *gap.get_or_insert(from);
            if !has_begun || self.is_excused(start, from) {
                unexcused = Duration::ZERO;
                continue;
            }
            let before = unexcused;
            unexcused += to - from;
            let allowed = self.allowed(start, to);
            if before <= allowed && unexcused > allowed {
                violations.push(format!(
                    "{} has no delegate at work from {start:?}, unexcused for more than {allowed:?} at {from:?}: {}",
                    self.timeline.world.scenario.delegates[self.line].name,
                    self.state(from)
                ));
            }
        }
        violations
    }

    /// All moments at which something may change, in order.
    fn boundaries(&self) -> Vec<Duration> {
        let mut all = BTreeSet::from([Duration::ZERO, self.timeline.world.twin.elapsed()]);
        let scenario = &self.timeline.world.scenario;
        for shadow in &self.shadows {
            let made = &scenario.images[shadow.image];
            all.insert(shadow.created.0);
            all.extend(shadow.removed.map(|(at, _)| at));
            all.extend(shadow.renames());
            for life in &shadow.lives {
                let ready = life.from + made.behaviour.ready_after;
                all.extend([life.from, ready, life.from + scenario.healthy_deadline + BEFORE]);
                if let kit::twin::Wellness::For(time) = made.behaviour.health {
                    all.insert(ready + time);
                }
                all.extend(life.end.map(|(at, _)| at));
                for (at, _) in &life.signals {
                    all.extend([*at, *at + scenario.stop_timeout + BEFORE]);
                }
            }
        }
        for (from, to) in self.book.standstills.iter().chain(&self.book.outages) {
            all.extend([*from, *to]);
        }
        let proof = scenario.healthy_deadline + BEFORE;
        all.extend((self.book.watches.iter()).flat_map(|(at, ..)| [*at, *at + proof]));
        all.extend(self.book.broken.iter().map(|(at, ..)| *at));
        all.extend(self.book.calm_since);
        let end = self.timeline.world.twin.elapsed();
        all.into_iter().filter(|at| *at <= end).collect()
    }

    /// Whether a circumstance excuses a name without a delegate for as long as it lasts.
    fn is_excused(&self, gap: Duration, at: Duration) -> bool {
        let is_in = |(from, to): &(Duration, Duration)| *from <= at && at < *to;
        let is_standing_still = self.book.standstills.iter().any(is_in);
        let is_unhealthy = self.book.outages.iter().any(is_in);
        is_standing_still
            || is_unhealthy
            || !self.is_watched(at)
            || self.is_its_owners(gap, at)
            || self.is_restarted(at)
            || self.was_unwatched(gap, at)
            || self.way == Way::StopFirst && (self.drains(at) || self.proves_itself(at))
            || !self.can_serve(at)
    }

    /// The engine's start, the readiness of the slowest good image, and the delay of failed calls.
    fn allowed(&self, gap: Duration, at: Duration) -> Duration {
        let images = self.timeline.world.scenario.images.iter();
        let ready = images
            .filter(|made| made.kind.serves())
            .map(|made| made.behaviour.ready_after);
        let failed = self.moments.failed_calls(gap.saturating_sub(FAULT), at);
        START + ready.max().unwrap_or_default() + FAULT * failed
    }

    /// Whether an upgrader runs.
    fn is_watched(&self, at: Duration) -> bool {
        let slots = self.timeline.world.scenario.upgraders.len();
        (0..slots).any(|slot| {
            let mut of_it = self.book.watches.iter().filter(|(_, other, _)| *other == slot);
            of_it
                .rfind(|(since, ..)| *since <= at)
                .is_some_and(|(_, _, begins)| *begins)
        })
    }

    /// Whether an upgrader started when none ran: it gives the container in service its time, however long that has been ill.
    fn was_unwatched(&self, gap: Duration, at: Duration) -> bool {
        let serves = |shadow: &&Shadow| shadow.role(at) == Some(Role::Serving) && shadow.life(at).is_some();
        let time = self.timeline.world.scenario.healthy_deadline + BEFORE;
        let is_new = |since: Duration| gap < since && since <= at && at < since + time;
        let is_first = |since: Duration| is_new(since) && !self.is_watched(since.saturating_sub(NOW));
        let mut starts = self.book.watches.iter().filter(|(.., begins)| *begins);
        self.shadows.iter().any(serves) && starts.any(|(since, ..)| is_first(*since))
    }

    /// Whether its owner stopped, paused or removed it, or it ended by itself unreplaced. A pruned container did not run.
    fn is_its_owners(&self, gap: Duration, at: Duration) -> bool {
        let by_hand = |(when, cause): (Duration, Cause)| {
            cause == Cause::OperatorAction && gap.saturating_sub(BEFORE) <= when && when <= at
        };
        let touched = self.shadows.iter().any(|shadow| {
            let signals = shadow
                .lives
                .iter()
                .flat_map(|life| life.signals.iter().copied().chain(life.end));
            signals.chain(shadow.renames_by()).any(by_hand) || shadow.is_paused(at)
        });
        touched || self.has_lost_images() || self.ended_by_itself(gap) || self.ended_by_itself_since(gap, at)
    }

    /// Whether a container that got its place back ended by itself once more.
    fn ended_by_itself_since(&self, gap: Duration, at: Duration) -> bool {
        let lives = self.shadows.iter().flat_map(|shadow| &shadow.lives);
        let mut ends = lives.filter_map(|life| life.end).map(|(end, _)| end);
        ends.any(|end| gap < end && end <= at && self.ended_by_itself(end))
    }

    /// Whether the container in service ended by itself then, without a predecessor to fall back to.
    fn ended_by_itself(&self, then: Duration) -> bool {
        let before = then.saturating_sub(NOW);
        let is_old = |shadow: &Shadow| shadow.role(before).is_some_and(Role::is_old);
        let has_ended = |shadow: &Shadow| {
            let life = shadow.lives.iter().rfind(|life| life.from < then);
            shadow.role(before) == Some(Role::Serving)
                && life.is_some_and(|life| {
                    let ended = life
                        .end
                        .is_some_and(|(end, cause)| end <= then && !is_ours(cause));
                    ended && !life.signals.iter().any(|(_, cause)| is_ours(*cause))
                })
        };
        let shadows = || self.shadows.iter().copied();
        shadows().any(has_ended) && !shadows().any(is_old)
    }

    /// Whether a person removed images without which nothing can be created again.
    fn has_lost_images(&self) -> bool {
        self.book.counts.contains_key("person removes image")
    }

    /// `HEALTH_ACTION=restart`.
    fn is_restarted(&self, at: Duration) -> bool {
        let timeout = self.timeline.world.scenario.stop_timeout;
        self.shadows.iter().any(|shadow| {
            let life = shadow.life(at);
            let mut signals = life.into_iter().flat_map(|life| &life.signals);
            signals.any(|(since, cause)| {
                self.moments.is_health_restart(*cause) && at <= *since + timeout + BEFORE
            })
        })
    }

    /// Whether the old container finishes its tasks within its time.
    fn drains(&self, at: Duration) -> bool {
        let timeout = self.timeline.world.scenario.stop_timeout;
        self.shadows.iter().any(|shadow| {
            let is_old = matches!(shadow.role(at), Some(Role::Draining { .. }));
            let life = shadow.life(at).filter(|_| is_old);
            life.is_some_and(|life| {
                life.signals
                    .first()
                    .is_some_and(|(since, _)| at < *since + timeout + BEFORE)
            })
        })
    }

    /// Whether the only container that can run now proves itself within its time.
    fn proves_itself(&self, at: Duration) -> bool {
        let deadline = self.timeline.world.scenario.healthy_deadline;
        self.shadows.iter().any(|shadow| {
            let is_new = matches!(shadow.role(at), Some(Role::Candidate | Role::Serving));
            let first = shadow
                .lives
                .first()
                .filter(|_| is_new && shadow.life(at).is_some());
            first.is_some_and(|first| at < first.from + deadline + BEFORE)
        })
    }

    /// Whether one of its containers has an image that serves, or its candidate knows such an image as the previous one.
    fn can_serve(&self, at: Duration) -> bool {
        let serves = |shadow: &Shadow| self.timeline.world.scenario.images[shadow.image].kind.serves();
        let is_broken = |shadow: &Shadow| {
            let hides = |kind: Operation| matches!(kind, Operation::Inspect | Operation::Start);
            let mut broken = self.book.broken.iter();
            let until = self.book.calm_since.unwrap_or(Duration::MAX);
            broken.any(|(since, id, kind)| *id == shadow.id && hides(*kind) && *since <= at && at < until)
        };
        self.shadows.iter().any(|shadow| match shadow.role(at) {
            Some(Role::Serving | Role::Retired | Role::Draining { .. }) => {
                serves(shadow) && !is_broken(shadow)
            }
            Some(Role::Candidate) => {
                let made = shadow.created.0;
                let before = self
                    .shadows
                    .iter()
                    .filter(|old| old.has_served(made) && old.role(made).is_some());
                let is_gone = |old: &&&Shadow| old.role(at).is_none();
                before.filter(is_gone).any(|old| serves(old)) || serves(shadow)
            }
            _ => false,
        })
    }

    /// Its containers in words: the role, the state and the quality of the image of each.
    fn state(&self, at: Duration) -> String {
        let mut words: Vec<String> = self
            .shadows
            .iter()
            .filter_map(|shadow| {
                let role = match shadow.role(at)? {
                    Role::Serving => "serving",
                    Role::Candidate => "candidate",
                    Role::Next => "next",
                    Role::Retired => "retired",
                    Role::Draining { .. } => "draining",
                    Role::Withdrawn { .. } => "withdrawn",
                    Role::Trial { .. } => "trial",
                    Role::Failed { .. } => "failed",
                    Role::Former => "former",
                    Role::Helper { .. } => "helper",
                };
                let does = match shadow.life(at) {
                    Some(_) if self.timeline.works(shadow, at) => "works",
                    Some(life) if life.signals.iter().any(|(since, _)| *since <= at) => "asked to stop",
                    Some(_) => "up",
                    None if shadow.lives.iter().any(|life| life.from <= at) => "ended",
                    None => "created",
                };
                let made: Kind = self.timeline.world.scenario.images[shadow.image].kind;
                let broken = self
                    .book
                    .broken
                    .iter()
                    .filter(|(since, id, _)| *id == shadow.id && *since <= at);
                let broken: Vec<String> = broken.map(|(_, _, kind)| format!(" no {kind:?}")).collect();
                Some(format!("{role} {does} {made:?}{}", broken.concat()))
            })
            .collect();
        words.sort();
        format!("{:?}: {}", self.way, words.join(", "))
    }
}

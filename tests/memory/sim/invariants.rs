//! The invariants of every moment of a story, whatever goes wrong. A step rests on an observation, so a step is right if
//! it was right at some moment between that observation and the step's effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::container::{Role, label};
use delegate_upgrader::engine::EngineError;
use delegate_upgrader::rollout::quarantine;

use super::ending::ending;
use super::reports::reports;
use super::scenario::{Faults, Way};
use super::serves::serves;
use super::timeline::{Shadow, Timeline, is_ours};
use super::world::World;
use kit::twin::{Call, Cause, Event, Happened, Operation};

/// An ended container is left to others for this long.
const GRACE: Duration = Duration::from_secs(10);
/// The stop time of a candidate that keeps the delegate from serving.
const GIVEN_UP: Duration = Duration::from_secs(10);

/// All violations of the promise.
pub fn violations(world: &World) -> (Vec<String>, BTreeSet<String>) {
    let (names, outages) = {
        let book = world.book();
        (book.names.clone(), book.outages.clone())
    };
    let timeline = Timeline::new(world, &names, &outages);
    let book = world.book();
    let calls = world.twin.calls();
    let lists = lists(&calls);
    let moments = Moments {
        timeline: &timeline,
        calls,
        lists,
    };
    let events = world.twin.events();
    let mut violations: Vec<String> = events.iter().filter_map(|event| moments.check(event)).collect();
    violations.extend(moments.settings_of_served());
    violations.extend(reports(world, &book));
    let (gaps, states) = serves(&timeline, &book, &moments);
    violations.extend(gaps);
    if book.endless {
        if !is_restless(world) {
            violations.push("the story does not come to rest".to_owned());
        }
    } else {
        violations.extend(ending(&timeline, &book, &moments));
    }
    (violations, states)
}

/// Whether, of two replicas whose image keeps falling ill, one is always restarting.
fn is_restless(world: &World) -> bool {
    let mut images = world.scenario.images.iter();
    world.scenario.restarts_unhealthy && images.any(|made| !made.kind.serves() && !made.kind.never_serves())
}

/// For each client, the calls with which its observations began.
fn lists(calls: &[Call]) -> BTreeMap<usize, Vec<usize>> {
    let mut lists: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for call in calls
        .iter()
        .filter(|call| call.operation == Operation::Containers)
    {
        lists.entry(call.client).or_default().push(call.index);
    }
    lists
}

pub(super) struct Moments<'a> {
    timeline: &'a Timeline<'a>,
    calls: Arc<Vec<Call>>,
    lists: BTreeMap<usize, Vec<usize>>,
}

impl Moments<'_> {
    /// Whether this was a request to restart a container for its health.
    pub(super) fn is_health_restart(&self, cause: Cause) -> bool {
        matches!(cause, Cause::Call(call) if self.calls[call].operation == Operation::Restart)
    }

    /// The number of our calls in this time that got no answer from the engine.
    pub(super) fn failed_calls(&self, from: Duration, to: Duration) -> u32 {
        let first = self.calls.partition_point(|call| call.at < from);
        let calls = self.calls[first..].iter().take_while(|call| call.at <= to);
        let is_lost = |call: &&Call| match &call.outcome {
            Some(Err(EngineError::Unreachable(_) | EngineError::TimedOut(_))) => true,
            outcome => outcome.is_none() && call.operation != Operation::Watch,
        };
        u32::try_from(calls.filter(is_lost).count()).unwrap()
    }

    /// The start of the observation on which the step of this call rests.
    pub(super) fn observed(&self, call: usize) -> Duration {
        let lists = self.lists.get(&self.calls[call].client);
        let before = lists.and_then(|lists| lists[..lists.partition_point(|list| *list < call)].last());
        before.map_or(Duration::ZERO, |list| self.calls[*list].at)
    }

    /// Whether this was so at some moment between the observation and the effect of the step.
    pub(super) fn was_right(&self, event: &Event, is_right: impl Fn(Duration) -> bool) -> bool {
        let Cause::Call(call) = event.cause else {
            return true;
        };
        let effect = event.at.saturating_sub(Duration::from_nanos(1));
        let mut at = self.observed(call).min(effect);
        let step = Duration::from_millis(500).max((effect - at) / 400);
        while at < effect {
            if is_right(at) {
                return true;
            }
            at += step;
        }
        is_right(effect)
    }

    /// The violation of this event, if any.
    fn check(&self, event: &Event) -> Option<String> {
        let world = self.timeline.world;
        let Some(shadow) = self.timeline.shadow(&event.id) else {
            let is_touched = is_ours(event.cause) && event.id == world.stranger.as_str();
            return is_touched.then(|| violated(event, "a stranger was touched"));
        };
        if let Happened::Exited { code: 137 } = event.what {
            return self.is_cut_short(shadow, event);
        }
        if !is_ours(event.cause) {
            return None;
        }
        if world.scenario.delegates[shadow.line].way == Way::LeftAlone {
            return Some(violated(event, "a delegate that opted out was touched"));
        }
        match event.what {
            Happened::Signalled => {
                let too_soon = self.is_stopped_too_soon(shadow, event);
                too_soon.or_else(|| self.is_not_followed(shadow, event))
            }
            Happened::Started => self.is_started_wrongly(shadow, event),
            Happened::Renamed { .. } => self.gives_up_name_too_soon(shadow, event),
            Happened::Removed => self.is_removed_too_soon(shadow, event),
            Happened::Created => self.is_tried_again_too_soon(shadow, event),
            _ => None,
        }
    }

    /// Whether another container of the delegate works that is not a candidate.
    fn another_works(&self, shadow: &Shadow, at: Duration) -> bool {
        let mut others = self.timeline.others(shadow);
        others.any(|other| {
            let role = other.role(at);
            let serves = matches!(role, Some(Role::Serving | Role::Retired | Role::Draining { .. }));
            serves && self.timeline.seems_to_work(other, at, true)
        })
    }

    /// Whether another container of the delegate exists that was not given up.
    pub(super) fn another_serves(&self, shadow: &Shadow, at: Duration) -> bool {
        let is_given_up = |role: Role| matches!(role, Role::Failed { .. } | Role::Withdrawn { .. });
        self.another_is(shadow, at, |role| !is_given_up(role))
    }

    fn another_is(&self, shadow: &Shadow, at: Duration, is: impl Fn(Role) -> bool) -> bool {
        let mut others = self.timeline.others(shadow);
        others.any(|other| other.role(at).is_some_and(&is))
    }

    fn is_stop_first(&self, shadow: &Shadow) -> bool {
        self.timeline.world.scenario.delegates[shadow.line].way == Way::StopFirst
    }

    /// A working delegate is asked to stop only while another one works; if two cannot run at once, only for its candidate. A
    /// container that may have been asked before serves in its next life.
    fn is_stopped_too_soon(&self, shadow: &Shadow, event: &Event) -> Option<String> {
        let before = event.at.saturating_sub(Duration::from_nanos(1));
        let role = shadow.role(before)?;
        let may_have_been_asked = matches!(role, Role::Draining { .. });
        if !shadow.has_served(before) || matches!(role, Role::Failed { .. } | Role::Withdrawn { .. }) {
            return None;
        }
        let is_right = |at: Duration| {
            let is_next = |other: &Shadow| {
                let is_unstarted = other.lives.first().is_none_or(|life| life.from > at);
                let role = other.role(at);
                role.is_some_and(Role::is_candidate) || role == Some(Role::Serving) && is_unstarted
            };
            let mut others = self
                .timeline
                .others(shadow)
                .filter(|other| other.base(at) == shadow.base(at));
            let is_named = |role: Role| role == Role::Serving || role.is_candidate();
            let is_alone = !others.any(|other| other.role(at).is_some_and(is_named));
            self.timeline.seems_to_work(shadow, at, false)
                || self.another_works(shadow, at)
                || self.is_stop_first(shadow) && self.timeline.others(shadow).any(is_next)
                || may_have_been_asked && is_alone
        };
        let is_right = self.was_right(event, is_right);
        (!is_right).then(|| violated(event, "the last working container was asked to stop"))
    }

    /// If nothing goes wrong, the gap of a stop-first replacement ends: its candidate starts, or the old one starts again.
    fn is_not_followed(&self, shadow: &Shadow, event: &Event) -> Option<String> {
        let world = self.timeline.world;
        let scenario = &world.scenario;
        let end = event.at + (scenario.stop_timeout + scenario.healthy_deadline) * 2;
        let is_by_hand = |event: &Event| event.cause == Cause::OperatorAction && event.at > Duration::ZERO;
        let has_people = scenario.people.is_some() || world.twin.events().iter().any(is_by_hand);
        let is_quiet = scenario.faults == Faults::default() && !has_people;
        let is_gap = matches!(shadow.role(event.at), Some(Role::Draining { .. }));
        if !is_quiet || !is_gap || end > world.twin.elapsed() {
            return None;
        }
        let mut family = self.timeline.others(shadow).chain([shadow]);
        let is_followed = family.any(|other| {
            let is_beside = other.id != shadow.id && other.life(event.at).is_some();
            is_beside
                || other
                    .lives
                    .iter()
                    .any(|life| event.at < life.from && life.from <= end)
        });
        (!is_followed).then(|| violated(event, "asked to stop, and nothing follows"))
    }

    /// No process ends before its stop timeout, unless a person or the engine ends it.
    fn is_cut_short(&self, shadow: &Shadow, event: &Event) -> Option<String> {
        let life = shadow
            .lives
            .iter()
            .find(|life| life.end.is_some_and(|(end, _)| end == event.at))?;
        let by_others = |cause: Cause| matches!(cause, Cause::OperatorAction | Cause::Engine);
        let (first, _) = *life.signals.first()?;
        if by_others(event.cause) || life.signals.iter().any(|(_, cause)| by_others(*cause)) {
            return None;
        }
        let (had, timeout) = (event.at - first, self.timeline.world.scenario.stop_timeout);
        // A candidate that was never in service has no tasks. It has ten seconds if it keeps the delegate from serving.
        let is_given_up = matches!(
            shadow.role(first),
            Some(Role::Failed { .. } | Role::Withdrawn { .. })
        );
        // A copy that has not started yet does not serve.
        let has_started = |other: &Shadow| other.lives.first().is_some_and(|life| life.from <= event.at);
        let mut others = self.timeline.others(shadow).filter(|other| has_started(other));
        let is_served = others.any(|other| other.role(event.at) == Some(Role::Serving));
        let keeps_out = is_given_up && !shadow.has_served(first) && self.is_stop_first(shadow) && !is_served;
        let timeout = if keeps_out { timeout.min(GIVEN_UP) } else { timeout };
        let is_short = had + Duration::from_millis(1) < timeout;
        is_short.then(|| violated(event, &format!("killed after {had:?} of {timeout:?}")))
    }

    /// Two containers of a stop-first delegate do not run at once, and a container that its owner stopped stays stopped.
    fn is_started_wrongly(&self, shadow: &Shadow, event: &Event) -> Option<String> {
        let lives = &shadow.lives;
        let place = lives.iter().position(|life| life.from == event.at)?;
        let stopped = place.checked_sub(1).and_then(|last| lives[last].signals.first());
        if let Some((at, Cause::OperatorAction)) = stopped
            && shadow.role(*at) == Some(Role::Serving)
            && !shadow.was_renamed_since(*at)
        {
            return Some(violated(event, "its owner stopped it, and it was started"));
        }
        // A container that a person renamed is a delegate of its own.
        let runs = |at: Duration| {
            let mut others = self.timeline.others(shadow);
            others.any(|other| other.base(at) == shadow.base(event.at) && other.life(at).is_some())
        };
        let is_right = !self.is_stop_first(shadow) || self.was_right(event, |at| !runs(at));
        (!is_right).then(|| violated(event, "two containers that cannot run at once"))
    }

    /// The container in service gives up its name only for a candidate: a working one or, stop-first, an existing one. It is
    /// rejected only if it does not work.
    fn gives_up_name_too_soon(&self, shadow: &Shadow, event: &Event) -> Option<String> {
        let before = event.at.saturating_sub(Duration::from_nanos(1));
        let works = |at: Duration, is: fn(Role) -> bool| {
            let mut others = self.timeline.others(shadow);
            others.any(|other| other.role(at).is_some_and(is) && self.timeline.seems_to_work(other, at, true))
        };
        let is_right = match (shadow.role(before)?, shadow.role(event.at)?) {
            (Role::Serving, Role::Retired) => self.was_right(event, |at| works(at, Role::is_candidate)),
            (Role::Serving, Role::Draining { .. }) => {
                // A container that Docker could not rename keeps its name; a candidate named `NAME.next` shows that.
                let is_announced =
                    self.was_right(event, |at| self.another_is(shadow, at, |role| role == Role::Next));
                let is_next = |at| self.another_is(shadow, at, Role::is_candidate);
                is_announced || self.is_stop_first(shadow) && self.was_right(event, is_next)
            }
            (Role::Retired, Role::Draining { .. }) => {
                self.was_right(event, |at| works(at, |role| role == Role::Serving))
            }
            (Role::Serving, Role::Failed { .. }) => {
                self.was_right(event, |at| self.timeline.seems_to_work(shadow, at, false))
            }
            (Role::Serving, Role::Withdrawn { .. }) => false,
            _ => true,
        };
        (!is_right).then(|| violated(event, "it gave up its name too soon"))
    }

    /// A container that was in service is removed only if a successor works, or with `--rm`.
    fn is_removed_too_soon(&self, shadow: &Shadow, event: &Event) -> Option<String> {
        let before = event.at.saturating_sub(Duration::from_nanos(1));
        let role = shadow.role(before)?;
        if !shadow.has_served(before) || matches!(role, Role::Failed { .. }) {
            return None;
        }
        let last = shadow.lives.last()?;
        let is_over = last.end.is_some_and(|(end, _)| end + GRACE <= event.at);
        let by_us = last.signals.last().is_some_and(|(_, cause)| is_ours(*cause));
        let auto_remove = self.timeline.world.scenario.delegates[shadow.line].auto_remove;
        let is_ended_by_others = !by_us || shadow.is_renamed_by_hand();
        let with_rm = auto_remove && role == Role::Serving && is_over && is_ended_by_others;
        let works = |at: Duration| {
            let mut others = self.timeline.others(shadow);
            others.any(|other| {
                other.role(at) == Some(Role::Serving) && self.timeline.seems_to_work(other, at, true)
            })
        };
        let is_right = with_rm || self.was_right(event, works);
        (!is_right).then(|| violated(event, "removed without a working successor"))
    }

    /// A rejected image is not tried again within its quarantine.
    fn is_tried_again_too_soon(&self, shadow: &Shadow, event: &Event) -> Option<String> {
        if !shadow.role(event.at).is_some_and(Role::is_candidate)
            || self.timeline.world.scenario.faults.clock > 0
        {
            return None;
        }
        let in_quarantine = |at: Duration| {
            let is_evidence =
                |other: &&Shadow| other.image == shadow.image && other.base(at) == shadow.base(event.at);
            let others = self.timeline.others(shadow).filter(is_evidence);
            let mut ends = others.filter_map(|other| match other.role(at)? {
                Role::Failed { attempt } => {
                    let last = other.lives.iter().rfind(|life| life.from <= at);
                    let ended = last.map(|life| life.end.map_or(at, |(end, _)| end));
                    Some(ended.unwrap_or(other.created.0) + quarantine(attempt))
                }
                _ => None,
            });
            // Docker shows times by its own clock, and a name contains whole seconds.
            ends.any(|end| at + Duration::from_secs(1) < end)
        };
        let is_right = self.was_right(event, |at| !in_quarantine(at));
        (!is_right).then(|| violated(event, "tried again within its quarantine"))
    }

    /// We never change a container that has been in service, unless it failed.
    fn settings_of_served(&self) -> Vec<String> {
        let has_served = |call: &Call| {
            let shadow = call.id.as_ref().and_then(|id| self.timeline.shadow(id.as_str()));
            shadow.is_some_and(|shadow| shadow.has_served(call.at))
        };
        let ours = self.calls.iter().filter(|call| call.client > 0);
        let is_change = |call: &&Call| match (call.operation, Role::parse(&call.subject).1) {
            (_, Role::Failed { .. } | Role::Withdrawn { .. }) => false,
            // A container that was removed meanwhile is not changed.
            (Operation::SetRestartPolicy, _) => call.id.is_some(),
            (Operation::Connect, role) => !role.is_candidate() && has_served(call),
            _ => false,
        };
        let changes = ours.filter(is_change);
        changes
            .map(|call| {
                format!(
                    "we changed {}: {:?} {}",
                    call.subject, call.operation, call.detail
                )
            })
            .collect()
    }
}

fn violated(event: &Event, rule: &str) -> String {
    format!("{rule}: {} at {:?} ({:?})", event.name, event.at, event.what)
}

/// The image before the one in service stays, so that `rollback` finds it.
pub(super) fn previous_image(document: &serde_json::Value) -> Option<&str> {
    document["Config"]["Labels"][label::PREVIOUS_IMAGE_ID].as_str()
}

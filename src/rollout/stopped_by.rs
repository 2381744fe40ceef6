//! Who stopped a container, as far as the engine's events tell.

use std::collections::HashSet;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Member, Rollout};
use crate::container::{ContainerId, Role};
use crate::engine::{EventKind, HostEvent};

/// With fewer events than an engine remembers, none was forgotten. It remembers 256.
const SURELY_ALL: usize = 240;
/// Signals that ask for something else than an end: HUP, USR1, USR2, CONT, WINCH.
const HARMLESS: [&str; 5] = ["1", "10", "12", "18", "28"];
/// For so long the answer holds for a container that is up, and where there was none.
const FRESH: TimeDelta = TimeDelta::seconds(10);

/// Who stopped a container, or asked it to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoppedBy {
    /// Somebody else than this program.
    Somebody,
    /// The engine, when it ended itself.
    Engine,
    /// Nobody: it runs, or ended by itself.
    Nobody,
    /// The engine does not tell, or not any more.
    Unknown,
}

impl StoppedBy {
    /// Why its end says nothing about its image, where it does not.
    pub(crate) fn common_cause(self) -> Option<&'static str> {
        match self {
            Self::Somebody => Some("somebody stopped or removed it"),
            Self::Engine => Some("Docker was restarted meanwhile"),
            Self::Nobody | Self::Unknown => None,
        }
    }
}

/// Who stopped a container, and when that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopper {
    /// The answer.
    pub by: StoppedBy,
    /// Its part then. In another part another question is asked.
    pub role: Role,
    /// When the events were read.
    pub asked_at: DateTime<Utc>,
    /// The life that the answer is about.
    pub started_at: Option<DateTime<Utc>>,
    /// The end that the answer is about, where the container had ended.
    pub finished_at: Option<DateTime<Utc>>,
}

impl HostEvent {
    /// Whether it is a signal that asks a container to end.
    fn is_harmful(&self) -> bool {
        matches!(&self.kind, EventKind::Signalled { signal } if !HARMLESS.contains(&signal.as_str()))
    }
}

impl Member {
    /// Who stopped it, or asked it to stop; `None` where that is not known yet.
    pub(super) fn stopped_by(&self, now: DateTime<Utc>) -> Option<StoppedBy> {
        let stopper = self.history.stopper.as_ref()?;
        let is_fresh = now - stopper.asked_at < FRESH;
        let holds = if self.is_up() {
            is_fresh
        } else {
            // Once the engine can be reached again, it may answer.
            stopper.finished_at == self.finished_at && (is_fresh || stopper.by != StoppedBy::Unknown)
        };
        let is_same = stopper.role == self.role && stopper.started_at == self.started_at;
        (holds && is_same).then_some(stopper.by)
    }

    /// Whether somebody is known to have asked this life to stop, however long ago that was learned.
    pub(crate) fn was_asked_by_somebody(&self) -> bool {
        let stopper = self.history.stopper.as_ref();
        let stopper = stopper.filter(|stopper| stopper.by == StoppedBy::Somebody);
        stopper.is_some_and(|stopper| stopper.role == self.role && stopper.started_at == self.started_at)
    }

    /// Whether it was this program that stopped it: this process, or an earlier one, which took its policy first.
    pub(super) fn was_stopped_by_us(&self) -> bool {
        let lost_its_policy = self.restart_is_off() && self.predecessor_restarts().is_some();
        self.history.stop_requested_at.is_some() || lost_its_policy
    }
}

impl Rollout {
    /// Who stopped this container, by the events since [`Self::stopped_since`].
    ///
    /// An attempt marker stands for the candidate that is gone.
    pub(crate) fn who_stopped(&self, member: &Member, events: &[HostEvent]) -> StoppedBy {
        let names = [Role::Candidate.name(&self.name), self.name.clone()];
        let is_gone = |event: &&HostEvent| self.member(&event.id).is_none() && names.contains(&event.name);
        let gone: HashSet<&ContainerId> = events.iter().filter(is_gone).map(|event| &event.id).collect();
        let is_of = |event: &&HostEvent| match member.role {
            // Somebody may have given it another name. An old one gets one of ours before it is asked to stop.
            Role::Attempt => {
                let (_, role) = Role::parse(&event.name);
                gone.contains(&event.id) && matches!(role, Role::Serving | Role::Candidate)
            }
            _ => event.id == member.id,
        };
        let is_up = member.role != Role::Attempt && member.is_up();
        let (mut knows_beginning, mut asked) = (false, HashSet::new());
        // The engine remembers the time since the marker was created. A candidate goes without a life if somebody removes
        // it, or if its start was refused, and it had `--rm`: then it was in its networks before.
        let mut was_removed =
            member.role == Role::Attempt && events.iter().any(|event| event.id == member.id);
        for event in events.iter().filter(is_of) {
            match &event.kind {
                EventKind::Started => {
                    (knows_beginning, was_removed) = (true, false);
                    // An earlier life was ended, as by `docker restart`.
                    asked.remove(&event.id);
                }
                // The name that it was given up for.
                EventKind::Renamed => knows_beginning |= member.retired_at().is_some(),
                EventKind::Signalled { .. } if event.is_harmful() => {
                    asked.insert(&event.id);
                }
                EventKind::Disconnected if member.role == Role::Attempt => {
                    (knows_beginning, was_removed) = (true, false);
                }
                EventKind::Signalled { .. } | EventKind::Disconnected | EventKind::Other => {}
            }
        }
        match knows_beginning {
            _ if !asked.is_empty() => StoppedBy::Somebody,
            // An engine that ended would have started it again.
            _ if member.was_stopped_between_lives() => StoppedBy::Somebody,
            true => StoppedBy::Nobody,
            false if is_up || events.len() >= SURELY_ALL => StoppedBy::Unknown,
            _ if was_removed => StoppedBy::Somebody,
            // An engine forgets all events when it ends, and this one has forgotten that start.
            false => StoppedBy::Engine,
        }
    }

    /// Who ended the container that had the delegate's name and is gone, by the events since [`Self::name_lost_since`].
    /// An old one gives up the name before this program asks it to stop.
    pub(crate) fn who_removed(&self, events: &[HostEvent]) -> StoppedBy {
        let left = self.left_behind();
        let replaced = left.and_then(|left| left.replaces.as_ref());
        // The clock may have been set back meanwhile, but the order in which an engine noted events stays.
        let is_begin = |event: &HostEvent| {
            let left = left.filter(|left| left.id == event.id);
            left.is_some_and(|left| left.retired_at().is_none() || event.kind == EventKind::Renamed)
        };
        let Some(begin) = events.iter().position(is_begin) else {
            // An engine forgets all events when it ends. As it comes back, it asks what still lives to stop, and tells that
            // as it tells what somebody does.
            return if events.len() >= SURELY_ALL {
                StoppedBy::Unknown
            } else {
                StoppedBy::Engine
            };
        };
        let had_name = |event: &HostEvent| event.name == self.name && self.member(&event.id).is_none();
        let gone: HashSet<&ContainerId> = events
            .iter()
            .enumerate()
            // What it was to replace may have gone while it was being created.
            .filter(|(number, event)| *number >= begin || replaced == Some(&event.id))
            .filter(|(_, event)| had_name(event))
            .map(|(_, event)| &event.id)
            .collect();
        // What somebody did to it as the candidate, it took along when it was promoted in that moment.
        let is_of_name = |event: &HostEvent| event.is_harmful() && event.name == self.name;
        let was_ended_by_request = |id: &&ContainerId| {
            let is_of = |event: &&HostEvent| event.id == **id && event.kind != EventKind::Disconnected;
            let of_it = || events.iter().filter(is_of);
            let mut ends = of_it().filter(|event| event.is_harmful() || event.kind == EventKind::Started);
            of_it().next_back().is_some_and(|last| last.name == self.name)
                && ends.next_back().is_some_and(is_of_name)
        };
        if gone.iter().any(was_ended_by_request) {
            StoppedBy::Somebody
        } else if events.len() >= SURELY_ALL {
            StoppedBy::Unknown
        } else {
            StoppedBy::Nobody
        }
    }

    /// What is left of a delegate that nobody has the name of: younger than the one that had it, or retired before it
    /// was removed.
    fn left_behind(&self) -> Option<&Member> {
        let younger = self.candidate.as_ref().or(self.standby.as_ref());
        younger.or_else(|| self.restorable())
    }

    /// Since when events tell what became of the container that had the name.
    pub(crate) fn name_lost_since(&self) -> DateTime<Utc> {
        // The second in a name may be the next one, where that of the moment was taken.
        let since = |member: &Member| member.retired_at().unwrap_or(member.created_at) - FRESH;
        self.left_behind().map(since).unwrap_or_default()
    }

    /// Since when events are of interest: since it gave up its name, or the start of its last life, or what came before
    /// that. What an attempt marker stands for was started after it was created.
    pub(crate) fn stopped_since(&self, member: &Member) -> DateTime<Utc> {
        // The second in a name may be the next one, where that of the moment was taken, or is later than the start of a life
        // that a clock which was set back since made look later. What is to replace it was created just before.
        let successors = self.candidate.iter().chain(self.given_up());
        let successors = successors.filter(|other| other.is_successor_of(member));
        let created = successors.map(|other| other.created_at).min();
        let retired = member.retired_at();
        let retired = retired.map(|retired| created.map_or(retired, |created| created.min(retired)) - FRESH);
        if member.role == Role::Attempt {
            return member.created_at;
        }
        // A start clears what was asked before.
        retired.unwrap_or_else(|| member.started_at.unwrap_or(member.created_at))
    }
}

#[cfg(test)]
mod tests {
    use std::slice;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::container::Inspected;
    use crate::health::{Health, HealthStatus, Probe};
    use crate::rollout::History;

    fn member(role: Role, status: &str) -> Member {
        let document = json!({
            "Id": "c",
            "Name": "/dd.candidate",
            "State": { "Status": status },
            "Config": { "Image": "delegate:1" },
        });
        let health = Health {
            status: HealthStatus::Unhealthy,
            probe: Probe::Running,
            detail: String::new(),
            failed_checks: 0,
        };
        let container = Inspected::new(document).unwrap();
        Member::read(&container, role, health, Duration::ZERO, History::default())
    }

    fn event(id: &str, name: &str, kind: EventKind) -> HostEvent {
        HostEvent {
            kind,
            id: ContainerId::new(id),
            name: name.to_owned(),
        }
    }

    fn signal(number: &str) -> EventKind {
        EventKind::Signalled {
            signal: number.to_owned(),
        }
    }

    fn of(member: &Member, kinds: &[EventKind]) -> StoppedBy {
        let events = kinds.iter().map(|kind| event("c", "dd.candidate", kind.clone()));
        let rollout = Rollout {
            name: "dd".to_owned(),
            candidate: Some(member.clone()),
            ..Rollout::default()
        };
        rollout.who_stopped(member, &events.collect::<Vec<_>>())
    }

    #[test]
    fn a_signal_in_this_life_is_somebody_s() {
        let ended = member(Role::Candidate, "exited");
        let started = EventKind::Started;
        for (kinds, by) in [
            (vec![started.clone()], StoppedBy::Nobody),
            (vec![started.clone(), signal("15")], StoppedBy::Somebody),
            (vec![started.clone(), signal("9")], StoppedBy::Somebody),
            (vec![started.clone(), signal("1")], StoppedBy::Nobody),
            (vec![signal("15"), started.clone()], StoppedBy::Nobody),
            (vec![signal("15")], StoppedBy::Somebody),
            (vec![EventKind::Other], StoppedBy::Engine),
        ] {
            assert_eq!(of(&ended, &kinds), by, "{kinds:?}");
        }
        // The engine would have started it again by its policy: somebody stopped it when it had no process.
        let mut by_policy = ended.clone();
        by_policy.restart_policy = "unless-stopped".to_owned();
        assert_eq!(of(&by_policy, slice::from_ref(&started)), StoppedBy::Somebody);
        // That holds where the engine has forgotten its start, too.
        assert_eq!(of(&by_policy, &[EventKind::Other]), StoppedBy::Somebody);
        by_policy.failed_to_start = true;
        assert_eq!(of(&by_policy, &[started]), StoppedBy::Nobody);
        assert_eq!(of(&by_policy, &[EventKind::Other]), StoppedBy::Engine);
        // One that runs was not ended by the engine.
        assert_eq!(of(&member(Role::Candidate, "running"), &[]), StoppedBy::Unknown);
    }

    #[test]
    fn an_engine_that_did_not_tell_is_asked_again() {
        for (by, asked_again) in [(StoppedBy::Unknown, true), (StoppedBy::Somebody, false)] {
            let mut ended = member(Role::Candidate, "exited");
            ended.history.stopper = Some(Stopper {
                by,
                role: ended.role,
                asked_at: DateTime::UNIX_EPOCH,
                started_at: ended.started_at,
                finished_at: ended.finished_at,
            });
            let at = |seconds| DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds);
            assert_eq!(ended.stopped_by(at(9)), Some(by));
            assert_eq!(ended.stopped_by(at(10)).is_none(), asked_again, "{by:?}");
        }
    }

    #[test]
    fn what_happened_since_it_gave_up_its_name_is_known_with_that_event() {
        let old = member(Role::Draining { since: 5 }, "running");
        let renamed = EventKind::Renamed;
        for (kinds, by) in [
            (vec![renamed.clone()], StoppedBy::Nobody),
            (vec![renamed.clone(), signal("15")], StoppedBy::Somebody),
            (vec![EventKind::Other], StoppedBy::Unknown),
        ] {
            assert_eq!(of(&old, &kinds), by, "{kinds:?}");
        }
        assert_eq!(
            of(&member(Role::Serving, "running"), &[renamed]),
            StoppedBy::Unknown
        );
    }

    #[test]
    fn where_events_may_be_forgotten_a_missing_start_says_nothing() {
        let ended = member(Role::Candidate, "exited");
        let others = |count| vec![EventKind::Other; count];
        assert_eq!(of(&ended, &others(SURELY_ALL - 1)), StoppedBy::Engine);
        assert_eq!(of(&ended, &others(SURELY_ALL)), StoppedBy::Unknown);
    }

    #[test]
    fn an_attempt_marker_stands_for_one_that_is_gone() {
        let marker = member(Role::Attempt, "created");
        let rollout = Rollout {
            name: "dd".to_owned(),
            attempt: Some(marker.clone()),
            ..Rollout::default()
        };
        let told = |id, name| rollout.who_stopped(&marker, &[event(id, name, signal("15"))]);
        assert_eq!(told("gone", "dd.candidate"), StoppedBy::Somebody);
        assert_eq!(told("gone", "dd"), StoppedBy::Somebody);
        assert_eq!(told("gone", "dd.draining-5"), StoppedBy::Engine);
        // Somebody gave it another name first; or it was withdrawn.
        for (name, by) in [
            ("kept", StoppedBy::Somebody),
            ("dd.withdrawn-5", StoppedBy::Nobody),
        ] {
            let started = event("gone", "dd.candidate", EventKind::Started);
            let signalled = event("gone", name, signal("15"));
            assert_eq!(rollout.who_stopped(&marker, &[started, signalled]), by, "{name}");
        }
        // The engine remembers the marker's creation, and no start of what it was made for.
        let created = event("c", "dd.attempt", EventKind::Other);
        let gone = |kind| event("gone", "dd.candidate", kind);
        for (events, by) in [
            (vec![], StoppedBy::Engine),
            (vec![gone(EventKind::Other)], StoppedBy::Engine),
            (vec![created.clone(), gone(EventKind::Other)], StoppedBy::Somebody),
            // Its start was refused.
            (
                vec![
                    created.clone(),
                    gone(EventKind::Other),
                    event("gone", "", EventKind::Disconnected),
                    gone(EventKind::Other),
                ],
                StoppedBy::Nobody,
            ),
            (vec![created, gone(EventKind::Started)], StoppedBy::Nobody),
            // Compose has started another one under that name.
            (
                vec![
                    gone(signal("15")),
                    event("made anew", "dd.candidate", EventKind::Started),
                ],
                StoppedBy::Somebody,
            ),
        ] {
            assert_eq!(rollout.who_stopped(&marker, &events), by, "{events:?}");
        }
    }

    #[test]
    fn what_had_the_name_was_removed_if_it_was_asked_to_end_under_that_name() {
        let rollout = Rollout {
            name: "dd".to_owned(),
            candidate: Some(member(Role::Candidate, "running")),
            ..Rollout::default()
        };
        let gone = |name, kind| event("gone", name, kind);
        let (other, renamed) = (EventKind::Other, EventKind::Renamed);
        let created = event("c", "dd.candidate", other.clone());
        for (mut events, by) in [
            (
                vec![gone("dd", signal("9")), gone("dd", other.clone())],
                StoppedBy::Somebody,
            ),
            (
                vec![gone("dd", EventKind::Started), gone("dd", other.clone())],
                StoppedBy::Nobody,
            ),
            // It was killed as the candidate, and promoted in that moment.
            (
                vec![
                    gone("dd.candidate", signal("9")),
                    gone("dd", renamed.clone()),
                    gone("dd", other.clone()),
                ],
                StoppedBy::Nobody,
            ),
            // It gave up the name first.
            (
                vec![gone("dd", signal("15")), gone("dd.draining-5", renamed)],
                StoppedBy::Nobody,
            ),
            // It is being removed.
            (
                vec![gone("dd", signal("9")), gone("", EventKind::Disconnected)],
                StoppedBy::Somebody,
            ),
        ] {
            // An engine that does not know of the candidate's creation ended since, and ends what lived when it comes back.
            assert_eq!(rollout.who_removed(&events), StoppedBy::Engine, "{events:?}");
            events.insert(0, created.clone());
            assert_eq!(rollout.who_removed(&events), by, "{events:?}");
        }
    }
}

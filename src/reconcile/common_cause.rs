//! Common causes: where the container that it is to replace does no better, or other delegates lost their health in the
//! same minutes, a candidate's failure says nothing about its image.

use chrono::{DateTime, TimeDelta, Utc};

use crate::container::{Role, RunState};
use crate::health::HealthStatus;
use crate::rollout::{CommonCause, Member, Memory, Rollout, UnhealthyPeer};

/// Notes on each container that has to prove itself, or has just taken over, that its predecessor does no better, or
/// which other delegate lost its health in the same minutes: at most `patience` before the container was first seen to
/// run.
pub(crate) fn note_unhealthy_peers(
    rollouts: &mut [Rollout],
    memory: &mut Memory,
    patience: TimeDelta,
    now: DateTime<Utc>,
) {
    let notes: Vec<(usize, CommonCause)> = rollouts
        .iter()
        .enumerate()
        .filter_map(|(index, rollout)| Some((index, unhealthy_peer(rollout, rollouts, patience, now)?)))
        .collect();
    for (index, cause) in notes {
        if let Some(subject) = rollouts.get_mut(index).and_then(subject_mut) {
            memory.history(&subject.id).note_common_cause(now, cause.clone());
            subject.history.note_common_cause(now, cause);
        }
    }
}

/// The container that has to prove itself: the candidate, or the one that has taken over while an old one is left.
pub(crate) fn subject(rollout: &Rollout) -> Option<&Member> {
    let new = |serving: &&Member| {
        let mut old_ones = rollout.draining.iter();
        let mut standby = rollout.standby.iter();
        old_ones.any(|old| serving.is_successor_of(old))
            || standby.any(|standby| serving.replaces == standby.replaces)
    };
    rollout
        .candidate
        .as_ref()
        .or_else(|| rollout.serving.as_ref().filter(new))
}

fn subject_mut(rollout: &mut Rollout) -> Option<&mut Member> {
    let id = subject(rollout)?.id.clone();
    let mut named = rollout.candidate.iter_mut().chain(&mut rollout.serving);
    named.find(|member| member.id == id)
}

fn unhealthy_peer(
    rollout: &Rollout,
    all: &[Rollout],
    patience: TimeDelta,
    now: DateTime<Utc>,
) -> Option<CommonCause> {
    let subject = subject(rollout).filter(|subject| !subject.is_created() && !subject.health.is_healthy())?;
    let seen = subject.history.seen_since?;
    if subject.state == RunState::Paused {
        return Some("somebody paused it".into());
    }
    let cause = |peer: &Member| CommonCause {
        what: format!(
            "{}, which runs {}, is unhealthy too: {}",
            peer.name, peer.image, peer.health.detail
        ),
        peer: Some(match peer.history.unhealthy_since {
            Some(lost) if lost >= seen => UnhealthyPeer::WithIt,
            _ => UnhealthyPeer::Before,
        }),
    };
    let own = rollout
        .serving
        .as_ref()
        .filter(|serving| subject.is_successor_of(serving));
    match own {
        Some(own) if is_in_use(own) && own.condition() <= subject.condition() => return Some(cause(own)),
        // The one that it replaces gave up the name: its successor's label says how it did.
        None if subject.predecessor_condition <= subject.condition() => {
            return Some(CommonCause {
                what: "the container that it replaces did no better when it was created".to_owned(),
                peer: Some(UnhealthyPeer::Before),
            });
        }
        _ => {}
    }
    // A container that stays unhealthy is not excused by others for longer than an extended proof takes.
    let lost = subject.history.unhealthy_since;
    let twice = patience.checked_mul(2).unwrap_or(TimeDelta::MAX);
    if subject.role == Role::Serving && lost.is_some_and(|lost| now - lost > twice) {
        return None;
    }
    let since = seen.checked_sub_signed(patience)?;
    all.iter()
        .filter(|other| other.name != rollout.name && other.workload == rollout.workload)
        .filter_map(|other| other.serving.as_ref())
        // A delegate with the same image may fail in the same way.
        .filter(|serving| serving.image_id != subject.image_id)
        .find(|serving| has_lost_health(serving, since))
        .map(cause)
}

fn is_in_use(serving: &Member) -> bool {
    matches!(serving.state, RunState::Running | RunState::Restarting)
}

/// Whether it lost its health after `since`. One that was never healthy says nothing about today.
fn has_lost_health(serving: &Member, since: DateTime<Utc>) -> bool {
    let lost_it = serving.history.unhealthy_since.is_some_and(|lost| lost >= since);
    is_in_use(serving) && serving.health.status == HealthStatus::Unhealthy && lost_it
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::container::{ContainerId, ImageId, Inspected};
    use crate::health::{Health, Probe};
    use crate::rollout::{Condition, History};

    const OLD: &str = "sha256:old";
    const NEW: &str = "sha256:new";
    /// In minutes. A container that is first seen at 8 is excused by what happened from 6 on.
    const PATIENCE: i64 = 2;
    const SEEN: i64 = 8;
    const NOW: i64 = 10;

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::minutes(minute)
    }

    fn health(status: HealthStatus) -> Health {
        Health {
            status,
            probe: Probe::Http,
            detail: "answers 503".to_owned(),
            failed_checks: 0,
        }
    }

    /// A container that has been unhealthy since then.
    fn ailing(name: &str, role: Role, image: &str, since: i64) -> Member {
        let document = json!({
            "Id": format!("id-of-{name}"),
            "Name": format!("/{name}"),
            "Image": image,
            "State": { "Status": "running" },
            "Config": { "Image": "delegate:1" },
        });
        let mut history = History::default();
        history.seen_since = Some(at(SEEN));
        history.unhealthy_since = Some(at(since));
        let container = Inspected::new(document).unwrap();
        let status = health(HealthStatus::Unhealthy);
        Member::read(&container, role, status, Duration::ZERO, history)
    }

    fn healthy(name: &str, role: Role, image: &str) -> Member {
        let mut member = ailing(name, role, image, 0);
        member.health = health(HealthStatus::Healthy);
        member.history.unhealthy_since = None;
        member
    }

    fn rollout(serving: Member) -> Rollout {
        Rollout {
            name: serving.name.clone(),
            workload: "group".to_owned(),
            serving: Some(serving),
            ..Rollout::default()
        }
    }

    /// `aa` works, and its candidate does not.
    fn replaced() -> Rollout {
        let mut rollout = rollout(healthy("aa", Role::Serving, OLD));
        let mut candidate = ailing("aa.candidate", Role::Candidate, NEW, SEEN);
        candidate.replaces = Some(ContainerId::new("id-of-aa"));
        rollout.candidate = Some(candidate);
        rollout
    }

    /// `aa` is a successor that does not work, and its predecessor drains.
    fn taken_over(unhealthy_since: i64) -> Rollout {
        let mut serving = ailing("aa", Role::Serving, NEW, unhealthy_since);
        serving.replaces = Some(ContainerId::new("id-of-dd"));
        let mut rollout = rollout(serving);
        rollout
            .draining
            .push(healthy("dd", Role::Draining { since: 0 }, OLD));
        rollout
    }

    /// A replica that lost its health just before the candidate was first seen.
    fn peer() -> Rollout {
        rollout(ailing("bb", Role::Serving, OLD, 7))
    }

    fn changed(mut rollout: Rollout, change: impl FnOnce(&mut Member)) -> Rollout {
        change(rollout.serving.as_mut().unwrap());
        rollout
    }

    /// What excuses the first of these.
    fn excuse(rollouts: Vec<Rollout>) -> Option<String> {
        common_cause(rollouts).map(|cause| cause.what)
    }

    fn common_cause(mut rollouts: Vec<Rollout>) -> Option<CommonCause> {
        let mut memory = Memory::default();
        let patience = TimeDelta::minutes(PATIENCE);
        note_unhealthy_peers(&mut rollouts, &mut memory, patience, at(NOW));
        let noted = |member: &Member| member.history.common_cause.clone();
        for other in rollouts.iter().skip(1) {
            assert_eq!(other.serving.as_ref().and_then(noted), None, "{}", other.name);
        }
        let member = subject(&rollouts[0])?;
        let remembered = memory.history_of(&member.id);
        assert_eq!(
            remembered.and_then(|history| history.common_cause.clone()),
            noted(member)
        );
        let (since, cause) = noted(member)?;
        assert_eq!(since, at(NOW));
        Some(cause)
    }

    fn is_excused(rollouts: Vec<Rollout>) -> bool {
        excuse(rollouts).is_some()
    }

    #[test]
    fn a_replica_that_lost_its_health_in_the_same_minutes_excuses() {
        assert_eq!(
            excuse(vec![replaced(), peer()]).unwrap(),
            "bb, which runs delegate:1, is unhealthy too: answers 503"
        );
        assert!(is_excused(vec![taken_over(SEEN), peer()]));
        assert!(!is_excused(vec![replaced()]));
    }

    #[test]
    fn one_with_the_same_image_does_not() {
        let same = changed(peer(), |peer| peer.image_id = ImageId::new(NEW));
        assert!(!is_excused(vec![replaced(), same.clone()]));
        assert!(!is_excused(vec![taken_over(SEEN), same]));
    }

    #[test]
    fn one_of_another_workload_does_not() {
        let mut other = peer();
        other.workload = "other".to_owned();
        assert!(!is_excused(vec![replaced(), other]));
    }

    #[test]
    fn its_own_predecessor_does_and_another_one_under_that_name_does_not() {
        let mut own = replaced();
        own.serving = Some(ailing("aa", Role::Serving, OLD, 7));
        assert!(is_excused(vec![own.clone()]));
        own.candidate.as_mut().unwrap().replaces = Some(ContainerId::new("id-of-another"));
        assert!(!is_excused(vec![own.clone()]));
        own.candidate.as_mut().unwrap().replaces = None;
        assert!(!is_excused(vec![own]));
    }

    /// However long it has been so: a failure counts if the old one does better.
    #[test]
    fn its_own_predecessor_does_if_it_does_no_better() {
        let with = |own: Member, candidate: RunState| {
            let mut rollout = replaced();
            rollout.serving = Some(own);
            rollout.candidate.as_mut().unwrap().state = candidate;
            common_cause(vec![rollout]).map(|cause| cause.peer.unwrap())
        };
        let own = |since| ailing("aa", Role::Serving, OLD, since);
        let crashing = |mut own: Member| {
            own.state = RunState::Restarting;
            own
        };
        let before = Some(UnhealthyPeer::Before);
        assert_eq!(with(own(0), RunState::Running), before);
        assert_eq!(with(own(SEEN), RunState::Running), Some(UnhealthyPeer::WithIt));
        let mut starting = own(0);
        starting.health = health(HealthStatus::Starting);
        assert_eq!(with(starting, RunState::Running), before);
        assert_eq!(with(crashing(own(0)), RunState::Running), before);
        // It crashes, and the old one at least stays up.
        assert_eq!(with(own(0), RunState::Restarting), None);
        assert_eq!(with(crashing(own(0)), RunState::Restarting), before);
        let mut stopped = own(0);
        stopped.state = RunState::Exited;
        assert_eq!(with(stopped, RunState::Running), None);
    }

    /// Where the predecessor gave up the name, the label says how it did.
    #[test]
    fn a_predecessor_that_did_no_better_when_the_candidate_was_created_excuses() {
        let with = |condition, state: RunState| {
            let mut rollout = replaced();
            rollout.serving = None;
            let candidate = rollout.candidate.as_mut().unwrap();
            candidate.predecessor_condition = condition;
            candidate.state = state;
            common_cause(vec![rollout]).map(|cause| cause.peer.unwrap())
        };
        let before = Some(UnhealthyPeer::Before);
        assert_eq!(with(Condition::Working, RunState::Running), None);
        assert_eq!(with(Condition::Unhealthy, RunState::Running), before);
        assert_eq!(with(Condition::Crashing, RunState::Running), before);
        assert_eq!(with(Condition::Unhealthy, RunState::Restarting), None);
        assert_eq!(with(Condition::Crashing, RunState::Restarting), before);
        // A successor that stays unhealthy is no better than the one before it, however long that lasts.
        let mut taken_over = taken_over(0);
        taken_over.serving.as_mut().unwrap().predecessor_condition = Condition::Unhealthy;
        assert!(is_excused(vec![taken_over]));
    }

    #[test]
    fn one_that_is_not_in_use_does_not() {
        for (state, is_excuse) in [
            (RunState::Running, true),
            (RunState::Restarting, true),
            (RunState::Paused, false),
            (RunState::Exited, false),
            (RunState::Created, false),
            (RunState::Removing, false),
        ] {
            let peer = changed(peer(), |peer| peer.state = state.clone());
            assert_eq!(is_excused(vec![replaced(), peer]), is_excuse, "{state:?}");
        }
    }

    #[test]
    fn only_one_that_is_unhealthy_does() {
        for status in [HealthStatus::Starting, HealthStatus::Healthy] {
            let peer = changed(peer(), |peer| peer.health = health(status));
            assert!(!is_excused(vec![replaced(), peer]), "{status:?}");
        }
    }

    #[test]
    fn one_that_was_unhealthy_long_before_does_not() {
        for (since, is_excuse) in [(Some(5), false), (Some(6), true), (Some(9), true), (None, false)] {
            let peer = changed(peer(), |peer| peer.history.unhealthy_since = since.map(at));
            assert_eq!(is_excused(vec![replaced(), peer]), is_excuse, "{since:?}");
        }
    }

    #[test]
    fn only_what_runs_and_is_not_healthy_is_excused() {
        let with = |change: fn(&mut Member)| {
            let mut rollout = replaced();
            change(rollout.candidate.as_mut().unwrap());
            is_excused(vec![rollout, peer()])
        };
        assert!(with(|_| ()));
        assert!(!with(|candidate| candidate.state = RunState::Created));
        assert!(!with(|candidate| candidate.health = health(HealthStatus::Healthy)));
        assert!(!with(|candidate| candidate.history.seen_since = None));
    }

    #[test]
    fn a_successor_that_stays_unhealthy_is_not_excused_for_ever_and_a_candidate_is() {
        assert!(is_excused(vec![taken_over(NOW - 2 * PATIENCE), peer()]));
        assert!(!is_excused(vec![taken_over(NOW - 2 * PATIENCE - 1), peer()]));
        let mut late = replaced();
        late.candidate.as_mut().unwrap().history.unhealthy_since = Some(at(0));
        assert!(is_excused(vec![late, peer()]));
    }

    #[test]
    fn a_delegate_that_replaces_none_has_nothing_to_prove() {
        let mut alone = taken_over(SEEN);
        alone.draining.clear();
        assert!(!is_excused(vec![alone.clone(), peer()]));
        let mut standby = healthy("aa.standby", Role::Standby, OLD);
        standby.replaces = Some(ContainerId::new("id-of-dd"));
        alone.standby = Some(standby);
        assert!(is_excused(vec![alone, peer()]));
        let mut of_another = taken_over(SEEN);
        of_another.draining[0].id = ContainerId::new("id-of-another");
        assert!(!is_excused(vec![of_another, peer()]));
    }
}

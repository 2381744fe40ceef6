//! Containers of a rollout that somebody gave another name: their labels, and what these refer to, say whose part they
//! are. What the rollout has not begun to do anything with, or has done with, is its owner's, under whatever name.

use chrono::{DateTime, Utc};

use super::read::{Families, Part, is_marker, is_ours};
use crate::container::{ContainerId, Inspected, Role, RunState, label};

/// What this process remembers about an old container since its last start.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// It was asked to stop, or is about to come back after that.
    pub(super) was_drained: bool,
    /// It ended while it had a delegate's name.
    pub(super) ended_in_service: bool,
    /// It gave up the delegate's name.
    pub(super) was_retired: bool,
}

/// Gives each delegate the parts that somebody renamed.
///
/// `known` is what this process knows of an old one, which nothing on the host may show any more.
pub(super) fn adopt(families: &mut Families, known: impl Fn(&Inspected) -> Known) {
    let names: Vec<String> = families.keys().cloned().collect();
    for name in names {
        let Some((base, role)) = adopted_role(&name, families, &known) else {
            continue;
        };
        // It is a family of its own by its name, and its only part.
        let parts = families.remove(&name).into_iter().flatten();
        let parts = parts.map(|part| Part { role, ..part });
        families.entry(base).or_default().extend(parts);
    }
}

/// Whose part the only container of that name is, and which.
fn adopted_role(
    name: &str,
    families: &Families,
    known: impl Fn(&Inspected) -> Known,
) -> Option<(String, Role)> {
    let [stray] = families.get(name)?.as_slice() else {
        return None;
    };
    if stray.role != Role::Serving {
        return None;
    }
    let container = &stray.container;
    let as_successor = || {
        let base = container.label(label::NAME).filter(|base| *base != name)?;
        let base = Some(base).filter(|base| is_ours(container, base))?;
        let role = successor_role(container, families.get(base)?, known(container).was_drained)?;
        Some((base.to_owned(), role))
    };
    let as_predecessor = || {
        let mut others = families.iter().filter(|(other, _)| *other != name);
        let known = known(container);
        others
            .find_map(|(base, parts)| Some((base.clone(), predecessor_role(container, base, parts, known)?)))
    };
    as_successor().or_else(as_predecessor)
}

fn find(parts: &[Part], role: impl Fn(Role) -> bool) -> Option<&Part> {
    parts.iter().find(|part| role(part.role))
}

fn is_up(container: &Inspected) -> bool {
    matches!(
        container.state(),
        RunState::Running | RunState::Restarting | RunState::Paused
    )
}

fn replaces(container: &Inspected) -> Option<ContainerId> {
    container.label(label::REPLACES).map(ContainerId::new)
}

/// Which part a successor is that somebody renamed while it was up: still the candidate, or the new one in service behind
/// which the old one drains. One that was given up is not up for long, and has lost its restart policy.
///
/// A standby that its owner keeps is not started, and an attempt marker could not run.
fn successor_role(container: &Inspected, parts: &[Part], was_asked: bool) -> Option<Role> {
    let is_copy = container.label(label::AUTO_REMOVE) == Some("true");
    let old = replaces(container).filter(|_| !is_copy && !is_marker(container))?;
    // Without a policy that could be taken off nothing shows it. Any other one somebody has set.
    let is_given_up =
        container.restart_policy_text() == "no" && container.label(label::RESTART_POLICY) != Some("no");
    let rival = |role| {
        find(parts, |other| other == role)
            .is_some_and(|part| replaces(&part.container).as_ref() == Some(&old))
    };
    // Another one was made after this one was given up.
    let is_newer = |part: &&Part| {
        !matches!(part.role, Role::Standby | Role::Attempt)
            && replaces(&part.container).as_ref() == Some(&old)
            && part.container.created_at() > container.created_at()
    };
    if parts.iter().any(|part| is_newer(&part)) {
        return None;
    }
    let predecessor = parts.iter().find(|part| part.container.id() == old);
    let lost_its_policy = predecessor.is_some_and(|part| {
        part.container.restart_policy_text() == "no" && container.label(label::RESTART_POLICY) != Some("no")
    });
    let predecessor = predecessor.map(|part| part.role);
    // One that was never started is needed where the old one has given up the name, or its policy, which is on a label.
    let is_awaited =
        container.state() == RunState::Created && (predecessor != Some(Role::Serving) || lost_its_policy);
    if !(is_up(container) || is_awaited) || rival(Role::Candidate) || rival(Role::Serving) {
        return None;
    }
    match predecessor {
        // It had been proven when the old one gave up the name, so it was promoted.
        Some(Role::Draining { since })
            if !is_given_up && !was_asked && find(parts, |role| role == Role::Serving).is_none() =>
        {
            let retired = DateTime::from_timestamp(since, 0);
            let was_proven = container
                .started_at()
                .is_some_and(|started| Some(started) < retired);
            Some(if was_proven {
                Role::Serving
            } else {
                Role::Candidate
            })
        }
        // Without a policy to lose, this process still knows that it asked it to stop.
        Some(Role::Serving) if !is_given_up && !was_asked => Some(Role::Candidate),
        // It is the old one once more, created from its standby.
        Some(Role::Standby) if !is_given_up && find(parts, |role| role == Role::Serving).is_none() => {
            Some(Role::Candidate)
        }
        None if !is_given_up && find(parts, |role| role == Role::Serving).is_none() => {
            let standby = find(parts, |role| role == Role::Standby);
            // The old one has vanished; its copy stands by.
            if standby.is_some_and(|copy| replaces(&copy.container).as_ref() == Some(&old)) {
                return Some(Role::Candidate);
            }
            outlived(container, parts).then_some(Role::Serving)
        }
        _ => None,
    }
}

/// Whether all that drain had given up the name before this one was made: it took the place of a later one, which is gone,
/// and they finish their tasks behind it.
fn outlived(container: &Inspected, parts: &[Part]) -> bool {
    let created = container.created_at();
    let mut drains = parts.iter().filter_map(|part| match part.role {
        Role::Draining { since } => Some(DateTime::from_timestamp(since, 0)),
        _ => None,
    });
    let candidate = find(parts, |role| role == Role::Candidate);
    let is_free = candidate.is_none_or(|new| replaces(&new.container) == Some(container.id()));
    is_up(container)
        && is_free
        && drains.next().is_some_and(|first| first < created)
        && drains.all(|since| since < created)
}

/// Whether this is an old one that drains, or has, for a successor that is not proven yet; and it has lived no other life
/// since that one was created, or since this process retired it or asked it to stop. One that was not asked to stop is a
/// delegate of its own under its new name.
fn predecessor_role(container: &Inspected, base: &str, parts: &[Part], known: Known) -> Option<Role> {
    let was_asked = known.was_drained;
    let is_successor = |part: &&Part| {
        part.role != Role::Attempt
            && is_ours(&part.container, base)
            && replaces(&part.container).as_ref() == Some(&container.id())
    };
    let (copies, successors): (Vec<&Part>, Vec<&Part>) = parts
        .iter()
        .filter(is_successor)
        .partition(|part| part.role == Role::Standby);
    // Its successor is gone, where only its copy is left.
    let successor = successors.into_iter().chain(copies).next()?;
    let name_is_free = find(parts, |role| role == Role::Serving).is_none();
    let created: DateTime<Utc> = successor.container.created_at()?;
    let began_before = container.started_at().is_some_and(|started| started < created);
    let lost_its_policy = container.restart_policy_text() == "no"
        && successor
            .container
            .label(label::RESTART_POLICY)
            .is_some_and(|policy| policy != "no");
    let is_unstarted = successor.container.state() == RunState::Created;
    let ended_since = was_asked || container.finished_at().is_some_and(|finished| finished > created);
    let drains = match successor.role {
        // That one may have been replaced in turn.
        Role::Serving | Role::Draining { .. } => is_up(container),
        // Without a policy that could show it, only this process knows.
        Role::Candidate if is_up(container) => lost_its_policy || was_asked,
        Role::Candidate => lost_its_policy || (ended_since && name_is_free),
        // It was asked to stop, and vanishes: then its copy takes its place.
        Role::Standby => was_asked && name_is_free,
        // It finishes its tasks first, and then it is to come back, unless somebody else comes first.
        role if role.is_given_up() && is_up(container) => {
            // A failed one stays for good, and somebody may have taken the policy off since.
            let may_be_asked = known.was_retired || matches!(successor.role, Role::Withdrawn { .. });
            (was_asked || lost_its_policy && may_be_asked) && name_is_free
        }
        role if role.is_given_up() => {
            // Since a restart of its own, when it was first started is not known.
            let ended_first = successor.container.restart_count() == 0
                && container.finished_at() <= successor.container.started_at();
            let had_no_policy = successor.container.label(label::RESTART_POLICY) == Some("no");
            // Its policy does not show it where it had none, or has it back already. Only stop-first a successor is
            // started when it has ended, and that is not done where it ended in service.
            let made_room = ended_first || (is_unstarted && had_no_policy);
            let may_be_ours = was_asked || (made_room && !known.ended_in_service);
            name_is_free && (lost_its_policy || (ended_since && may_be_ours))
        }
        _ => false,
    };
    let was_retired = known.was_retired && successor.role != Role::Candidate;
    ((began_before || was_asked || was_retired) && drains).then(|| Role::Draining {
        since: created.timestamp(),
    })
}

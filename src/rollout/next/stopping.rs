//! Telling containers to stop, and what waits until they have: rejected ones, old ones behind a successor, candidates
//! nobody wants any more.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::proof::has_common_cause_since;
use super::{At, can_come_back, is_between_lives, is_left, remove, span, timestamp};
use crate::container::RunState;
use crate::container::{ImageId, Role};
use crate::rollout::reason::Reason;
use crate::rollout::{Decision, FailureCause, Member, Rollout, Step};

/// How long after its deadline a container that was told to stop is told again, to stop at once. Engines 23.0 to
/// 24.0.2 forget the deadline when the client that asked is gone.
const OVERDUE: Duration = Duration::from_millis(500);
/// A rename and the stop after it are this close together, unless the process that did the first is gone.
const ONE_BREATH: Duration = Duration::from_secs(10);

/// A removal that takes longer than this is not waited for.
const STUCK: Duration = Duration::from_secs(600);

/// What is waited for beside everything else, and when to look at it again.
pub(super) type Pending = Option<(Reason, DateTime<Utc>)>;

impl At<'_> {
    /// Rejected and withdrawn candidates are stopped as gently as delegates. Of the rejected ones the last is kept, of
    /// the withdrawn ones none, unless it remembers the restart policy of an old one that is still to come back.
    pub(super) fn put_away(&self, pending: &mut Pending) -> Option<Decision> {
        let Rollout {
            failed,
            withdrawn,
            serving,
            draining,
            ..
        } = self.rollout;
        for member in failed.iter().chain(withdrawn).filter(|member| member.is_up()) {
            if let Some(step) = self.stop(member, pending) {
                return Some(step);
            }
        }
        // What was made with `--rm` goes by itself, in its own time.
        for member in withdrawn
            .iter()
            .filter(|member| member.state == RunState::Removing)
        {
            self.pend_removal(member, pending);
        }
        if let Some(serving) = serving
            && self.rollout.candidate.is_none()
            && let Some(step) = withdrawn.iter().find_map(|other| self.give_back(serving, other))
        {
            return Some(step);
        }
        let remembers =
            |member: &Member| serving.is_none() && draining.iter().any(|old| member.is_successor_of(old));
        let superseded = failed.split_last().map_or(&[][..], |(_, superseded)| superseded);
        let done = withdrawn.iter().filter(|member| !remembers(member));
        superseded
            .iter()
            .chain(done)
            .find(|member| is_left(member))
            .map(remove)
    }

    /// Policy off, then the signal, then patience.
    pub(super) fn stop(&self, member: &Member, pending: &mut Pending) -> Option<Decision> {
        if !member.restart_is_off() {
            return Some(policy_off(member));
        }
        let stop = |grace| {
            Decision::Act(Step::Stop {
                id: member.id.clone(),
                name: member.name.clone(),
                grace,
            })
        };
        let Some(told) = member.history.stop_requested_at else {
            return Some(stop(member.stop_timeout));
        };
        let deadline = told + span(member.stop_timeout);
        if self.now > deadline + span(OVERDUE) && self.now > told + span(OVERDUE) {
            return Some(stop(Duration::ZERO));
        }
        let reason = match member.role {
            Role::Draining { .. } => Reason::Draining {
                name: member.name.clone(),
                until: deadline,
            },
            _ => Reason::Stopping {
                name: member.name.clone(),
            },
        };
        let soon = look_again(self.now, told);
        let overdue = deadline + span(OVERDUE) + TimeDelta::milliseconds(1);
        let until = [deadline, overdue]
            .into_iter()
            .filter(|moment| *moment > self.now)
            .fold(soon, DateTime::min);
        pend(pending, reason, until);
        None
    }

    /// The drain of an old one. The container may have been told by an earlier process, and nobody can ask it.
    ///
    /// So whoever tells it gives it its whole time: better late than a task cut short. Where it had been told before,
    /// the engine's own clock still runs from the first time. A policy that is still on says that it has not been,
    /// and then its name gets the time at which it is.
    pub(super) fn drain(&self, old: &Member, pending: &mut Pending) -> Option<Decision> {
        let Role::Draining { since } = old.role else {
            return None;
        };
        if let Some(step) = self.copy_of(old) {
            return Some(step);
        }
        let late = self.now > timestamp(since) + span(ONE_BREATH);
        if late && !old.restart_is_off() && old.history.stop_requested_at.is_none() && !is_between_lives(old)
        {
            return Some(self.retire(old));
        }
        self.stop(old, pending)
    }

    /// Old containers behind one that is in service.
    pub(super) fn drain_behind(&self, serving: &Member, pending: &mut Pending) -> Option<Decision> {
        for old in &self.rollout.draining {
            if serving.is_successor_of(old)
                && (can_come_back(old) || (old.is_up() && self.has_standby(old)))
                && let Some(cause) = self.lost_after_commit(serving, Some(old))
            {
                return Some(self.give_up(serving, cause));
            }
            let works = serving.is_up() && serving.health.is_healthy();
            if old.is_up() && (works || old.history.stop_requested_at.is_some()) {
                if let Some(step) = self.drain(old, pending) {
                    return Some(step);
                }
            } else if old.state == RunState::Removing {
                self.pend_removal(old, pending);
            } else if !works {
                let reason = Reason::SuccessorUnhealthy {
                    verdict: serving.health.to_string(),
                };
                // A stranger that is ill for good is not waited for.
                let since = self.now - span(self.policy.healthy_deadline);
                let for_good = serving.history.unhealthy_since.is_some_and(|lost| lost <= since);
                if !for_good || serving.is_successor_of(old) {
                    pend(pending, reason, self.now + self.proof_interval());
                }
            } else if let Some(image) = self.outdated_image(serving, old) {
                return Some(Decision::Act(Step::RemoveImage { id: image }));
            } else {
                return Some(remove(old));
            }
        }
        None
    }

    /// Why an old one is still there, where nothing is waited for.
    pub(super) fn left_behind(&self) -> Option<Reason> {
        let serving = self.rollout.serving.as_ref()?;
        let is_left = self
            .rollout
            .draining
            .iter()
            .any(|old| old.state != RunState::Removing);
        let works = serving.is_up() && serving.health.is_healthy();
        (is_left && !works).then(|| Reason::SuccessorUnhealthy {
            verdict: serving.health.to_string(),
        })
    }

    /// Why the successor in service must give the name back, if it must.
    pub(super) fn lost_after_commit(&self, serving: &Member, old: Option<&Member>) -> Option<FailureCause> {
        if serving.has_ended() {
            return (!self.may_be_restarting(serving)).then(|| FailureCause::EndedAfterCommit {
                ending: serving.ending.clone(),
            });
        }
        // An old one that finishes its tasks takes no new ones, and cannot serve before it has ended. To stop an ill
        // successor before that would leave nobody at all, and the illness may be an outage of the Manager's.
        let had_a_policy = serving.predecessor_policy.as_deref() != Some("no");
        let told =
            |old: &Member| old.history.stop_requested_at.is_some() || (old.restart_is_off() && had_a_policy);
        if old.is_some_and(|old| old.is_up() && told(old)) {
            return None;
        }
        let unhealthy = serving.history.unhealthy_since?;
        if has_common_cause_since(serving, self.now - span(self.policy.healthy_deadline)) {
            return None;
        }
        (self.now - unhealthy >= span(self.policy.healthy_deadline)).then(|| {
            FailureCause::UnhealthyAfterCommit {
                lasting: (self.now - unhealthy).to_std().unwrap_or_default(),
                health: serving.health.detail.clone(),
            }
        })
    }

    /// A candidate that nobody wants any more, through no fault of its own: no quarantine.
    pub(super) fn withdraw(&self, candidate: &Member, because: Option<Reason>) -> Decision {
        if candidate.state == RunState::Removing {
            return self.until_gone(candidate);
        }
        if !candidate.is_up() && because.is_none() {
            return remove(candidate);
        }
        if is_between_lives(candidate) {
            let mut pending = None;
            return self
                .stop(candidate, &mut pending)
                .unwrap_or_else(|| waiting(pending, self.now));
        }
        // Its name says so before it hears of it: nobody must take a candidate that is stopping for a proven one.
        Decision::Act(Step::Withdraw {
            id: candidate.id.clone(),
            to: self.dated(self.now.timestamp(), |since| Role::Withdrawn { since }),
            because,
        })
    }

    pub(super) fn until_gone(&self, member: &Member) -> Decision {
        if self.is_stuck(member) {
            return Decision::Rest(Reason::RemovalStuck {
                name: member.name.clone(),
            });
        }
        Decision::Wait {
            reason: Reason::Stopping {
                name: member.name.clone(),
            },
            until: self.now + TimeDelta::seconds(1),
        }
    }

    fn pend_removal(&self, member: &Member, pending: &mut Pending) {
        if let Decision::Wait { reason, until } = self.until_gone(member) {
            pend(pending, reason, until);
        }
    }

    /// An engine may stay in the middle of a removal for ever, as when a container was renamed at that moment.
    fn is_stuck(&self, member: &Member) -> bool {
        let since = member.finished_at.or(member.history.seen_since);
        member.state == RunState::Removing && since.is_some_and(|since| self.now - since > span(STUCK))
    }
}

fn pend(pending: &mut Pending, reason: Reason, until: DateTime<Utc>) {
    if pending.as_ref().is_none_or(|(_, sooner)| until < *sooner) {
        *pending = Some((reason, until));
    }
}

/// How soon to look again at something that has gone on since `since`: often at first, every ten seconds later.
fn look_again(now: DateTime<Utc>, since: DateTime<Utc>) -> DateTime<Utc> {
    let elapsed = (now - since).max(TimeDelta::zero());
    now + (elapsed / 10).clamp(TimeDelta::milliseconds(500), TimeDelta::seconds(10))
}

pub(super) fn waiting(pending: Pending, now: DateTime<Utc>) -> Decision {
    match pending {
        Some((reason, until)) => Decision::Wait { reason, until },
        None => Decision::Wait {
            reason: Reason::NoContainer,
            until: now + TimeDelta::seconds(1),
        },
    }
}

pub(super) fn policy_off(member: &Member) -> Decision {
    set_policy(member, "no")
}

pub(super) fn set_policy(member: &Member, policy: &str) -> Decision {
    Decision::Act(Step::SetRestartPolicy {
        id: member.id.clone(),
        name: member.name.clone(),
        policy: policy.to_owned(),
    })
}

impl At<'_> {
    /// The image before the one before: nobody goes back two steps. The one that the owner brought is the owner's, and
    /// another replica may be a step behind.
    pub(super) fn outdated_image(&self, serving: &Member, old: &Member) -> Option<ImageId> {
        let image = old.previous_image_id.as_ref().filter(|_| old.release > 1)?;
        let is_kept = *image == serving.image_id
            || *image == old.image_id
            || self.rollout.retained_images.contains(image);
        (!is_kept).then(|| image.clone())
    }
}

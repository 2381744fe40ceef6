//! What to do next about one delegate: a pure function, and total.
//!
//! `docs/development/rollout.md` has the same tables, under the same names and in the same order; each arm of a `match`
//! here is a row there, and carries its id. To change a rule is to change its row.

mod alone;
mod beginning;
mod cleanup;
mod drain;
mod health;
mod helper;
mod proof;
mod rejecting;
mod removed;
mod replacing;
mod restoring;
mod serving;
mod standby;
mod stop;

pub(crate) use beginning::{Beginning, Holdup};

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::Row::{Q1, Q2, Q3, Q4, Q5, Q6, Q7, Z1};
use super::reason::Reason;
use super::{Decided, Desired, Fact, Facts, INSPECT, Member, Policy, Rollout, Step, UpdateOrder};
use crate::container::Role;

/// How long one that ended rests before it is started again, and how long one that found its port taken may take to end.
const RESTART_DELAY: TimeDelta = TimeDelta::seconds(10);

/// Decides what to do next about one delegate.
pub fn next(
    rollout: &Rollout,
    desired: &Desired,
    policy: &Policy,
    facts: &Facts,
    now: DateTime<Utc>,
) -> Decided {
    let order = rollout.update_order(policy, facts);
    let at = At {
        rollout,
        desired,
        policy,
        facts,
        order,
        now,
    };
    if let Some(decided) = at.first_questions() {
        return decided;
    }
    let lost = at.lost_successor();
    let draining = lost.is_none().then(|| at.drain_predecessors());
    let beside = Decided::earliest(at.clean_up().chain(draining.into_iter().flatten()));
    let of_situation = |situation: &Situation<'_>| match *situation {
        Situation::InService { serving } => at.in_service(serving),
        Situation::InServiceWithStandby { serving, standby } => at.in_service_with_standby(serving, standby),
        Situation::SideBySide { serving, candidate } => at.side_by_side(serving, candidate),
        Situation::NameIsFree { candidate, old } => at.name_is_free(candidate, old),
        Situation::Recreated { candidate } => at.recreated(candidate),
        Situation::Alone { candidate } => at.alone(candidate),
        Situation::Restoring { old } => at.restoring(old),
        Situation::FallingBack { standby } => at.falling_back(standby),
        Situation::NoContainer => Z1.rest(Reason::NoContainer),
    };
    let situation = || {
        let situation = Situation::of(rollout);
        let decided = lost.or_else(|| at.removed(&situation));
        decided.unwrap_or_else(|| of_situation(&situation))
    };
    match beside {
        Some(beside) => beside.or(situation),
        None => situation(),
    }
}

/// What the containers of a delegate are to each other: one variant for each table of the page. Failed, withdrawn and
/// draining ones behind a successor have tables of their own, which come first.
enum Situation<'a> {
    /// One has the name, and nothing is in progress.
    InService { serving: &'a Member },
    /// The same, and a copy of it, or of its predecessor, stands by.
    InServiceWithStandby {
        serving: &'a Member,
        standby: &'a Member,
    },
    /// One has the name, and a candidate is beside it.
    SideBySide {
        serving: &'a Member,
        candidate: &'a Member,
    },
    /// Between the two renames of a commit, or in a stop-first replacement. Without an old one there is its standby.
    NameIsFree {
        candidate: &'a Member,
        old: Option<&'a Member>,
    },
    /// The candidate is the old one once more, created from its standby.
    Recreated { candidate: &'a Member },
    /// A candidate, and nothing to go back to.
    Alone { candidate: &'a Member },
    /// An old one gave up the name, and no candidate is there to take it.
    Restoring { old: &'a Member },
    /// Only the standby is left that could serve.
    FallingBack { standby: &'a Member },
    /// Nothing is left that could serve.
    NoContainer,
}

impl<'a> Situation<'a> {
    fn of(rollout: &'a Rollout) -> Self {
        let standby = rollout.standby.as_ref();
        match (&rollout.serving, &rollout.candidate, standby) {
            (Some(serving), Some(candidate), _) => Self::SideBySide { serving, candidate },
            (Some(serving), None, Some(standby)) => Self::InServiceWithStandby { serving, standby },
            (Some(serving), None, None) => Self::InService { serving },
            (None, Some(candidate), Some(standby)) if candidate.is_successor_of(standby) => {
                Self::Recreated { candidate }
            }
            (None, Some(candidate), _) => match rollout.predecessor_of(candidate) {
                None if standby.is_none() => Self::Alone { candidate },
                old => Self::NameIsFree { candidate, old },
            },
            (None, None, _) => match (rollout.restorable(), standby) {
                (Some(old), _) => Self::Restoring { old },
                (None, Some(standby)) => Self::FallingBack { standby },
                (None, None) => Self::NoContainer,
            },
        }
    }
}

/// All that a decision depends on.
struct At<'a> {
    rollout: &'a Rollout,
    desired: &'a Desired,
    policy: &'a Policy,
    facts: &'a Facts,
    order: UpdateOrder,
    now: DateTime<Utc>,
}

impl At<'_> {
    /// What keeps anything else from being asked.
    fn first_questions(&self) -> Option<Decided> {
        let unread = self.rollout.inspect_error.as_ref();
        let is_pausing = |retry_at| retry_at > self.now || unread.is_some();
        let backoff = self
            .facts
            .backoff
            .as_ref()
            .filter(|backoff| is_pausing(backoff.retry_at));
        Some(match (backoff, unread) {
            (Some(backoff), _) if backoff.is_hopeless() => Q1.rest(backoff.reason.clone()),
            (Some(backoff), _) => Q2.wait(backoff.reason.clone(), backoff.retry_at),
            (None, Some(problem)) => {
                let (step, problem) = (INSPECT.to_owned(), problem.clone());
                Q3.wait(
                    Reason::EngineError { step, problem },
                    self.now + TimeDelta::seconds(1),
                )
            }
            _ if self.policy.health_only => Q4.rest(Reason::HealthOnly {
                published: self.desired.published(),
            }),
            _ if let Some(reason) = self.rollout.left_alone() => Q5.rest(reason),
            _ if let Some(renamed) = self.renamed_candidate() => {
                Q6.act(Step::rename(renamed, Role::Candidate.name(&self.rollout.name)))
            }
            _ => Q7.learn(Fact::StoppedBy {
                container: self.ended_somehow()?.id.clone(),
            }),
        })
    }

    fn renamed_candidate(&self) -> Option<&Member> {
        let name = Role::Candidate.name(&self.rollout.name);
        let candidate = self.rollout.candidate.as_ref();
        candidate.filter(|candidate| candidate.name != name)
    }

    /// One that has ended in the middle of a replacement, where who stopped it is not known yet. An engine remembers
    /// that for a while only, so it is asked at once.
    fn ended_somehow(&self) -> Option<&Member> {
        let rollout = self.rollout;
        let mut named = rollout.candidate.iter().chain(&rollout.serving);
        let is_unknown = |member: &&Member| {
            member.has_ended() && !member.was_stopped_by_us() && member.stopped_by(self.now).is_none()
        };
        named.find(is_unknown).filter(|_| rollout.is_in_progress())
    }

    fn is_stop_first(&self) -> bool {
        self.order == UpdateOrder::StopFirst
    }

    /// How often a candidate is checked while it proves itself.
    fn proof_interval(&self) -> TimeDelta {
        (span(self.policy.healthy_time) / 6).clamp(TimeDelta::milliseconds(250), TimeDelta::seconds(5))
    }

    /// So long ago that what has lasted since then has lasted too long.
    fn healthy_deadline_ago(&self) -> DateTime<Utc> {
        self.now - span(self.policy.healthy_deadline)
    }
}

fn span(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX / 4)
}

/// That the one in service is not healthy.
fn successor_unhealthy(serving: &Member) -> Reason {
    Reason::SuccessorUnhealthy {
        verdict: serving.health.to_string(),
    }
}

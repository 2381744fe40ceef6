//! Decides what to do with an orchestrator's workload. The rules are a list of rows, as a pure function, and the first
//! matching row wins. Changes that others make to a service or a Deployment always take precedence: no row adopts them,
//! undoes them, or treats them as a verdict on an image.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Attempt, Managed, Orchestrator, Progress, Row, Step, TaskFailure};
use crate::host::hold::Holds;
use crate::image::ImageReference;
use crate::rollout::reason::Reason;
use crate::rollout::wanted::not_asked;
use crate::rollout::{
    self, Backoff, Blocker, BlockerRow, Desired, Fact, Intent, Policy, RunFacts, Start, Surroundings,
    quarantine,
};
use crate::text::duration::{self, span};

/// How often to observe a workload while its orchestrator is working.
const POLL: TimeDelta = TimeDelta::seconds(2);

/// The decision on a workload.
pub type Decision = rollout::Decision<Step>;

/// A decision, and the row that made it.
pub type Decided = rollout::Decided<Row, Decision>;

/// Facts that do not come from the workload itself.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The back-off after a failed call for this workload.
    pub backoff: Option<Backoff>,
    /// The holds in the engine's records, if they were read, or the reason why they cannot be read.
    pub holds: Option<Result<Holds, String>>,
    /// Whether the holds are too old to start an upgrade with them.
    pub holds_are_old: bool,
    /// The facts from the present run.
    pub run: RunFacts,
}

/// Decides. Also returns the reasons why no upgrade starts now, which are empty while one is in progress.
pub fn next(
    managed: &Managed,
    desired: &Desired,
    policy: &Policy,
    facts: &Facts,
    now: DateTime<Utc>,
) -> (Decided, Vec<Blocker>) {
    let at = At {
        managed,
        desired,
        policy,
        facts,
        now,
    };
    let mut blockers = at.start().blockers();
    let decided = at.decide(&blockers);
    if ![Row::LeftAlone, Row::HealthOnly].contains(&decided.row) && decided.row < Row::UpdatedElsewhere {
        blockers.clear();
    }
    (decided, blockers)
}

/// Whether an attempt has no outcome yet. Until it has one, no other workload with the same `DELEGATE_NAME` is changed.
pub fn is_undecided(managed: &Managed, policy: &Policy, now: DateTime<Utc>) -> bool {
    // The outcome of a paused update depends on someone else.
    let is_paused = matches!(managed.progress, Progress::Paused { .. });
    let went_back = managed.taken_back().is_some_and(|attempt| attempt.is_applied) && !is_paused;
    managed.is_in_progress()
        || managed.left_alone.is_none() && (managed.unproven(policy, now).is_some() || went_back)
}

struct At<'a> {
    managed: &'a Managed,
    desired: &'a Desired,
    policy: &'a Policy,
    facts: &'a Facts,
    now: DateTime<Utc>,
}

impl At<'_> {
    fn decide(&self, blockers: &[Blocker]) -> Decided {
        let mut tables = [Row::GUARDS, Row::TRIED, Row::BEFORE, Row::IDLE].into_iter();
        let decided = tables.find_map(|rows| Decided::first(rows, |row| self.decision(row, blockers)));
        decided.unwrap_or_else(|| Decided {
            row: Row::Blocked,
            decision: Decision::Rest(not_asked()),
        })
    }

    /// Returns a row's decision if the row applies. Each row may assume that no earlier row applies.
    fn decision(&self, row: Row, blockers: &[Blocker]) -> Option<Decision> {
        let Managed { progress, tasks, .. } = self.managed;
        let soon = self.now + POLL;
        let wait = Decision::wait;
        let unproven = || self.managed.unproven(self.policy, self.now);
        Some(match row {
            Row::CallFailed => {
                let backoff = self.facts.backoff.as_ref();
                backoff.filter(|backoff| backoff.retry_at > self.now)?.or_rest()
            }
            Row::LeftAlone => Decision::Rest(self.managed.left_alone.clone()?),
            Row::HealthOnly => {
                let published = self.policy.health_only.then(|| self.desired.published())?;
                Decision::Rest(Reason::HealthOnly { published })
            }
            Row::RollingOut => {
                let is_incomplete = *progress == Progress::Updating || tasks.complete_since().is_none();
                unproven().filter(|(_, has_time)| *has_time && is_incomplete)?;
                wait(self.rolling_out(), soon)
            }
            Row::Proving => {
                unproven().filter(|(_, has_time)| *has_time)?;
                let since = tasks.complete_since()?;
                wait(self.proving(since), since + span(self.policy.healthy_time))
            }
            Row::TooLate => {
                let (attempt, _) = unproven()?;
                let within = duration::text(self.policy.healthy_deadline);
                let problem = format!("{} of {} ran after {within}", tasks.running, tasks.wanted);
                roll_back(attempt, self.explained(problem, attempt))
            }
            Row::Stopped => {
                let attempt = self.managed.carried_out(self.policy)?;
                let Progress::Paused {
                    by_failure: true,
                    message,
                } = progress
                else {
                    return None;
                };
                let problem = format!("{} stopped the update: {message}", self.orchestrator());
                roll_back(attempt, self.explained(problem, attempt))
            }
            Row::NotVerified => {
                let image = self.managed.applied()?.to.clone();
                let is_idle = matches!(progress, Progress::Settled { .. }) && tasks.wanted == 0;
                let rests = is_idle && self.wanted().is_none();
                rests.then_some(Decision::Rest(Reason::NotVerified { image }))?
            }
            Row::RollingBack => wait(self.rolling_back()?, soon),
            Row::Failed => {
                let attempt = self.managed.taken_back()?;
                let cause = attempt.failed.clone().or_else(|| self.rolled_back(attempt))?;
                let image = attempt.to.clone();
                Decision::Act(Step::Quarantine { image, cause })
            }
            Row::WentBack => {
                let attempt = self.managed.taken_back()?;
                match progress {
                    Progress::RolledBack { .. } | Progress::RollbackPaused { .. } => note_rollback(attempt),
                    Progress::Settled { .. } if attempt.is_applied => note_rollback(attempt),
                    _ => return None,
                }
            }
            Row::ThirdImage => note_rollback(self.overruled()?),
            Row::UpdatedElsewhere => match (progress, self.in_other_hands()?) {
                // The orchestrator may be about to report that a task of ours failed.
                (Progress::RollingBack, reason) if self.managed.taken_back().is_some() => wait(reason, soon),
                (Progress::Updating | Progress::RollingBack, reason) => {
                    wait(reason, self.now + span(self.policy.healthy_time))
                }
                _ => return None,
            },
            Row::UpdatePaused => Decision::Rest(self.in_other_hands()?),
            Row::HoldsUnknown => {
                self.wanted().filter(|(_, intent)| !intent.is_requested())?;
                let start = self.start();
                let is_free = blockers.is_empty();
                let depends = match self.facts.holds {
                    None => is_free || start.is_staged(),
                    Some(_) => self.facts.holds_are_old && is_free && start.unseen().is_none(),
                };
                depends.then_some(Decision::Learn(Fact::Holds))?
            }
            Row::FirstSeen => {
                let image = self.start().unseen()?.to_owned();
                Decision::Act(Step::NoteFirstSeen { image })
            }
            Row::Blocked => Decision::Rest(blockers.first()?.reason.clone()),
            Row::Begin => {
                let (to, intent) = self.wanted()?;
                let (to, intent) = (to.clone(), intent.clone());
                // The attempt with this image may already be recorded.
                let is_noted = |attempt: &Attempt| attempt.to == to.to_string();
                if matches!(intent, Intent::Reconfigure(..)) && self.managed.is_noted() {
                    // Another process is about to change the image, and the attempt must not be lost.
                    let orchestrator = self.orchestrator();
                    return Some(Decision::Rest(Reason::UpdatedElsewhere { orchestrator }));
                }
                Decision::Act(if self.managed.taken_back().is_some_and(is_noted) {
                    Step::Apply { to }
                } else {
                    Step::Begin { to, intent }
                })
            }
        })
    }

    fn wanted(&self) -> Option<(&ImageReference, &Intent)> {
        let (reference, _, intent) = self.desired.wanted()?;
        Some((reference, intent))
    }

    fn orchestrator(&self) -> &'static str {
        self.managed.orchestrator.into()
    }

    /// Returns the reason to wait while the orchestrator rolls a failed image back.
    fn rolling_back(&self) -> Option<Reason> {
        let attempt = self.managed.behind()?;
        let has_failed = attempt.failed.is_some();
        let is_on_its_way = match &self.managed.progress {
            // Without a failure, someone else requested the rollback.
            Progress::RollingBack => has_failed || self.managed.failure_of(attempt).is_some(),
            Progress::Updating => has_failed,
            // For a while, a Deployment may still report the exceeded deadline of the failed image.
            Progress::Paused { by_failure: true, .. } => {
                has_failed
                    && self.managed.orchestrator == Orchestrator::Kubernetes
                    && self.now < attempt.since + self.managed.allowed(self.policy) * 2
            }
            _ => false,
        };
        is_on_its_way.then(|| Reason::RollingBack {
            orchestrator: self.orchestrator(),
            image: attempt.tried(),
            to: attempt.from.clone(),
        })
    }

    /// Returns why the orchestrator itself rolled back, which it does only after a task has failed.
    fn rolled_back(&self, attempt: &Attempt) -> Option<String> {
        let (Progress::RolledBack { message } | Progress::RollbackPaused { message }) =
            &self.managed.progress
        else {
            return None;
        };
        self.managed.failure_of(attempt)?;
        let problem = format!("{} rolled it back: {message}", self.orchestrator());
        Some(self.explained(problem, attempt))
    }

    /// Returns the last attempt if someone has given a Deployment a third image since, the attempt's image is still
    /// published, and no operator requests it. For a service this proves nothing: a redeployed stack uses its file's image.
    fn overruled(&self) -> Option<&Attempt> {
        let (wanted, _) = self.wanted().filter(|(_, intent)| !intent.is_requested())?;
        let image = self.managed.image.as_str();
        let is_settled = matches!(self.managed.progress, Progress::Settled { .. });
        let attempt = self.managed.record.attempt.as_ref()?;
        let is_third = attempt.to != image && attempt.from != image;
        let is_overruled = is_third
            && is_settled
            && self.managed.orchestrator == Orchestrator::Kubernetes
            && attempt.is_applied
            && attempt.failed.is_none()
            && wanted.to_string() == attempt.to;
        is_overruled.then_some(attempt)
    }

    /// Returns someone else's update that is in progress or paused.
    fn in_other_hands(&self) -> Option<Reason> {
        let orchestrator = self.orchestrator();
        match &self.managed.progress {
            Progress::Settled { .. } | Progress::RolledBack { .. } => None,
            Progress::Updating | Progress::RollingBack => Some(Reason::UpdatedElsewhere { orchestrator }),
            Progress::Paused { message, .. } | Progress::RollbackPaused { message } => {
                let message = message.clone();
                Some(Reason::UpdatePaused {
                    orchestrator,
                    message,
                })
            }
        }
    }

    fn start(&self) -> Start<'_> {
        Start {
            own: self,
            desired: self.desired,
            limits: &self.managed.limits,
            policy: self.policy,
            holds: self.facts.holds.as_ref(),
            run: &self.facts.run,
            expiry: self.managed.image.expiry(),
            now: self.now,
        }
    }

    fn is_wanted(&self, image: &str) -> bool {
        self.wanted()
            .is_some_and(|(reference, _)| reference.to_string() == image)
    }

    fn rolling_out(&self) -> Reason {
        let tasks = &self.managed.tasks;
        Reason::RollingOut {
            orchestrator: self.orchestrator(),
            image: self.managed.image.to_string(),
            running: tasks.running,
            wanted: tasks.wanted,
        }
    }

    fn proving(&self, since: DateTime<Utc>) -> Reason {
        let tasks = &self.managed.tasks;
        Reason::Proving {
            healthy_for: (self.now - since).to_std().unwrap_or_default(),
            needed: self.policy.healthy_time,
            verdict: format!("{} of {} run", tasks.running, tasks.wanted),
        }
    }

    /// Returns the problem, with the message of the task that failed.
    fn explained(&self, problem: String, attempt: &Attempt) -> String {
        match self.managed.failure_of(attempt) {
            Some(failure) => format!("{problem} ({})", failure.error),
            None => problem,
        }
    }
}

impl Managed {
    /// Returns the last attempt if its image is in use but not proven, and whether there is time left to prove it.
    fn unproven(&self, policy: &Policy, now: DateTime<Utc>) -> Option<(&Attempt, bool)> {
        let Managed { progress, tasks, .. } = self;
        let attempt = self.carried_out(policy)?;
        let allowed = self.allowed(policy);
        // Limit each wait, since a task that finds no node waits forever.
        let got_on = tasks
            .last_started_at
            .map_or(attempt.since, |at| at.max(attempt.since));
        match progress {
            Progress::Updating => Some((attempt, now < got_on + allowed)),
            Progress::Settled { completed_at } if tasks.wanted > 0 => {
                let complete_since = tasks.complete_since();
                let healthy_time = span(policy.healthy_time);
                let is_proven = complete_since.is_some_and(|since| now >= since + healthy_time);
                // A failure long after the end of the update does not count against the image.
                let judged = allowed + span(policy.healthy_deadline);
                let is_over = now >= completed_at.unwrap_or(attempt.since) + judged;
                if is_proven || is_over {
                    return None;
                }
                let in_time = now < completed_at.unwrap_or(got_on) + allowed;
                // A task that ends and restarts makes no progress, unless it had run for a long time.
                let has_run = complete_since.or(*completed_at).is_some();
                Some((
                    attempt,
                    in_time || has_run && !self.ends_early(attempt, policy, now),
                ))
            }
            _ => None,
        }
    }

    /// Returns the last attempt if its image is in use and nobody else has changed the tasks' spec since.
    fn carried_out(&self, policy: &Policy) -> Option<&Attempt> {
        let attempt = self.applied()?;
        let revisions = self.revision.zip(attempt.revision);
        let is_newer = revisions.is_some_and(|(now, before)| now > before + 1);
        // The clocks of two nodes may differ.
        let is_later = self
            .updated_at
            .is_some_and(|at| at > attempt.since + self.allowed(policy));
        (!is_newer && !is_later).then_some(attempt)
    }

    /// Returns the time that a task may take, including the pause before the next task.
    fn allowed(&self, policy: &Policy) -> TimeDelta {
        span(policy.healthy_deadline) + span(self.pace)
    }

    fn failure_of(&self, attempt: &Attempt) -> Option<&TaskFailure> {
        let failure = self.tasks.last_failure.as_ref();
        failure.filter(|failure| {
            let is_tried = failure.image == attempt.to
                && (!attempt.is_of_settings() || failure.settings == self.record.release);
            is_tried && failure.at >= attempt.since
        })
    }

    /// Whether a task of this image ended recently after a short run. Otherwise, tasks that no longer run were lost with
    /// their node, or ran long enough to prove the image.
    fn ends_early(&self, attempt: &Attempt, policy: &Policy, now: DateTime<Utc>) -> bool {
        let long = policy.healthy_time * 2;
        let failure = self.failure_of(attempt);
        let recent = failure.filter(|failure| now < failure.at + span(long));
        recent.is_some_and(|failure| failure.ran_for.is_none_or(|ran_for| ran_for < long))
    }
}

impl Surroundings for At<'_> {
    fn ask(&self, row: BlockerRow) -> Option<Reason> {
        let Managed {
            record, name, image, ..
        } = self.managed;
        let delegate = name.clone();
        Some(match row {
            BlockerRow::LeftAlone => self.managed.left_alone.clone()?,
            BlockerRow::InOtherHands => self.in_other_hands()?,
            BlockerRow::RolledBack => Reason::RolledBack {
                delegate,
                image: record
                    .rolled_back_from
                    .clone()
                    .filter(|left| self.is_wanted(left))?,
                to: image.to_string(),
            },
            BlockerRow::Quarantined => {
                let failed = record
                    .failed
                    .as_ref()
                    .filter(|failed| self.is_wanted(&failed.image))?;
                let until = failed.at + span(quarantine(failed.attempts));
                (self.now < until).then(|| Reason::Quarantined {
                    delegate,
                    image: failed.image.clone(),
                    attempt: failed.attempts,
                    until,
                })?
            }
            _ => return None,
        })
    }
}

fn roll_back(attempt: &Attempt, cause: String) -> Decision {
    let to = attempt.from.clone();
    Decision::Act(Step::RollBack { to, cause })
}

fn note_rollback(attempt: &Attempt) -> Decision {
    let from = attempt.to.clone();
    Decision::Act(Step::NoteRollback { from })
}

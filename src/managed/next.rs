//! The decision on a workload of an orchestrator: one table, pure.
//!
//! Changes by others to a service or a Deployment always take precedence: the table never adopts them, never undoes them, and
//! never takes them for a verdict on an image.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Attempt, Managed, Orchestrator, Progress, RolloutFailure, Step, TaskFailure};
use crate::host::hold::Holds;
use crate::image::ImageReference;
use crate::rollout::reason::Reason;
use crate::rollout::wanted::not_asked;
use crate::rollout::{Backoff, Blocker, Desired, Intent, Policy, RunFacts, Start, quarantine};
use crate::text::duration::span;

/// How often a workload is observed while its orchestrator is at work.
const POLL: TimeDelta = TimeDelta::seconds(2);

/// A row of the table in docs/development/managed.md, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the page says what each row is about")]
pub enum Row {
    I1,
    I2,
    I3,
    I4,
    I5,
    I6,
    I7,
    I8,
    I9,
    I10,
    I11,
    I12,
    I13,
    I14,
    I15,
    I16,
    I17,
    I18,
    I19,
    I20,
}

/// The decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Take this step, and observe again.
    Act(Step),
    /// Find out what the engine remembers that holds upgrades back, and decide again.
    LearnHolds,
    /// Nothing yet: decide again at that time.
    Wait {
        /// The reason to wait.
        reason: Reason,
        /// When to decide again, at the latest.
        until: DateTime<Utc>,
    },
    /// Nothing, for this reason, until something changes.
    Rest(Reason),
}

/// A decision, and the row that leads to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The row.
    pub row: Row,
    /// The decision.
    pub decision: Decision,
}

/// Facts that do not come from the workload itself.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The last call for this workload failed.
    pub backoff: Option<Backoff>,
    /// The holds that the engine remembers, if they were read, or why they cannot be.
    pub holds: Option<Result<Holds, String>>,
    /// Whether they were read too long ago to begin by them.
    pub holds_are_old: bool,
    /// The present run's word on the upgrade.
    pub run: RunFacts,
}

impl Row {
    fn act(self, step: Step) -> Decided {
        self.decide(Decision::Act(step))
    }

    fn wait(self, reason: Reason, until: DateTime<Utc>) -> Decided {
        self.decide(Decision::Wait { reason, until })
    }

    fn rest(self, reason: Reason) -> Decided {
        self.decide(Decision::Rest(reason))
    }

    fn decide(self, decision: Decision) -> Decided {
        Decided { row: self, decision }
    }
}

/// Decides.
pub fn next(
    managed: &Managed,
    desired: &Desired,
    policy: &Policy,
    facts: &Facts,
    now: DateTime<Utc>,
) -> Decided {
    At {
        managed,
        desired,
        policy,
        facts,
        now,
    }
    .decide()
}

/// Why no upgrade of a workload starts now, in the order of the table; empty while one is in progress.
pub fn blockers(
    managed: &Managed,
    desired: &Desired,
    policy: &Policy,
    facts: &Facts,
    now: DateTime<Utc>,
) -> Vec<Blocker> {
    let at = At {
        managed,
        desired,
        policy,
        facts,
        now,
    };
    match at.decide().row {
        Row::I2 | Row::I3 | Row::I14 | Row::I15 | Row::I16 | Row::I17 | Row::I18 => at.start().blockers(),
        _ => Vec::new(),
    }
}

struct At<'a> {
    managed: &'a Managed,
    desired: &'a Desired,
    policy: &'a Policy,
    facts: &'a Facts,
    now: DateTime<Utc>,
}

impl At<'_> {
    fn decide(&self) -> Decided {
        let managed = self.managed;
        if let Some(backoff) = &self.facts.backoff
            && backoff.retry_at > self.now
        {
            let reason = backoff.reason.clone();
            return if backoff.is_hopeless() {
                Row::I1.rest(reason)
            } else {
                Row::I1.wait(reason, backoff.retry_at)
            };
        }
        if let Some(reason) = &managed.left_alone {
            return Row::I2.rest(reason.clone());
        }
        if self.policy.health_only {
            return Row::I3.rest(Reason::HealthOnly {
                published: self.desired.published(),
            });
        }
        let image = managed.image.as_str();
        let attempt = managed.record.attempt.as_ref();
        match attempt {
            Some(attempt) if attempt.to == image => self.at_target(attempt),
            Some(attempt) if attempt.from == image => self.at_start(attempt),
            // Someone else gave it a third image since. That counts for more than the published image.
            Some(attempt)
                if attempt.is_applied && attempt.failed.is_none() && self.is_wanted_again(attempt) =>
            {
                Row::I20.act(Step::NoteRollback {
                    from: attempt.to.clone(),
                })
            }
            _ => self.settled(),
        }
    }

    /// Whether what was tried is still what is published, and nobody asks for more than that. A stack that is deployed
    /// again gives a service the image of its file, and means nothing by it.
    fn is_wanted_again(&self, attempt: &Attempt) -> bool {
        self.managed.orchestrator == Orchestrator::Kubernetes
            && matches!(self.desired, Desired::Image { reference, intent: Intent::Upgrade, .. } if reference.to_string() == attempt.to)
            && matches!(self.managed.progress, Progress::Settled { .. })
    }

    /// It has the image that was tried last.
    fn at_target(&self, attempt: &Attempt) -> Decided {
        let Managed { progress, tasks, .. } = self.managed;
        let roll_back = |row: Row, cause| {
            row.act(Step::RollBack {
                to: attempt.from.clone(),
                cause,
            })
        };
        let orchestrator = self.managed.orchestrator.name();
        // Each wait has an end here: a task that finds no node waits without one.
        let got_on = tasks
            .last_started_at
            .map_or(attempt.since, |at| at.max(attempt.since));
        let allowed = self.allowed();
        let deadline = got_on + allowed;
        let too_late = || RolloutFailure::NotRunningInTime {
            running: tasks.running,
            wanted: tasks.wanted,
            within: self.policy.healthy_deadline,
            problem: self.last_failure_of(attempt),
        };
        match progress {
            Progress::Updating if self.now < deadline => Row::I4.wait(self.rolling_out(), self.now + POLL),
            Progress::Updating => roll_back(Row::I5, too_late()),
            Progress::Paused {
                by_failure: true,
                message,
            } => roll_back(
                Row::I6,
                RolloutFailure::Stopped {
                    orchestrator,
                    message: self.explained(message, attempt),
                },
            ),
            Progress::Settled { .. } if tasks.wanted == 0 => match self.desired {
                Desired::Keep(_) => Row::I7.rest(Reason::NotVerified {
                    image: attempt.to.clone(),
                }),
                Desired::Image { .. } => self.settled(),
            },
            // A failure long after the update was complete is not held against the image.
            Progress::Settled { completed_at } if !self.is_over(completed_at.unwrap_or(attempt.since)) => {
                let in_time = self.now < completed_at.map_or(deadline, |at| at + allowed);
                match tasks.complete_since() {
                    Some(since) if self.now >= since + span(self.policy.healthy_time) => self.settled(),
                    // A task that ends and starts again does not get on; one that had run for long may.
                    Some(since) if in_time || !self.ends_early(attempt) => {
                        Row::I8.wait(self.proving(since), since + span(self.policy.healthy_time))
                    }
                    None if in_time || completed_at.is_some() && !self.ends_early(attempt) => {
                        Row::I9.wait(self.rolling_out(), self.now + POLL)
                    }
                    _ => roll_back(Row::I10, too_late()),
                }
            }
            _ => self.settled(),
        }
    }

    /// How long a task may take, with the pause before the next one.
    fn allowed(&self) -> TimeDelta {
        span(self.policy.healthy_deadline) + span(self.managed.pace)
    }

    /// Whether an update that was complete then is judged no more.
    fn is_over(&self, completed_at: DateTime<Utc>) -> bool {
        let judged = span(self.policy.healthy_deadline) * 2 + span(self.managed.pace);
        self.now >= completed_at + judged
    }

    /// It has the image before the one that was tried last: it was not given that yet, or no longer has it.
    fn at_start(&self, attempt: &Attempt) -> Decided {
        let failed = |row: Row, cause: String| {
            row.act(Step::Quarantine {
                image: attempt.to.clone(),
                cause,
            })
        };
        let orchestrator = self.managed.orchestrator.name();
        let rolling_back = || {
            let reason = Reason::RollingBack {
                orchestrator,
                image: attempt.to.clone(),
                to: attempt.from.clone(),
            };
            Row::I11.wait(reason, self.now + POLL)
        };
        match (&self.managed.progress, &attempt.failed) {
            // Someone else asked for that, as long as nothing has failed.
            (Progress::RollingBack, None) if self.last_failure_of(attempt).is_none() => {
                Row::I14.wait(Reason::UpdatedElsewhere { orchestrator }, self.now + POLL)
            }
            (Progress::RollingBack, _) | (Progress::Updating, Some(_)) => rolling_back(),
            // A Deployment may show the exceeded deadline of the image that failed for a while.
            (Progress::Paused { by_failure: true, .. }, Some(_))
                if self.managed.orchestrator == Orchestrator::Kubernetes
                    && self.now < attempt.since + self.allowed() * 2 =>
            {
                rolling_back()
            }
            (_, Some(cause)) => failed(Row::I12, cause.clone()),
            // The orchestrator does that by itself only after a task has failed.
            (Progress::RolledBack { message } | Progress::RollbackPaused { message }, None)
                if self.last_failure_of(attempt).is_some() =>
            {
                let cause = RolloutFailure::RolledBack {
                    orchestrator,
                    message: self.explained(message, attempt),
                };
                failed(Row::I12, cause.to_string())
            }
            // Its owner went back: that counts for more than what is published.
            (Progress::RolledBack { .. } | Progress::RollbackPaused { .. }, None) => {
                Row::I13.act(Step::NoteRollback {
                    from: attempt.to.clone(),
                })
            }
            (Progress::Settled { .. }, None) if attempt.is_applied => Row::I13.act(Step::NoteRollback {
                from: attempt.to.clone(),
            }),
            (Progress::Settled { .. }, None) if matches!(self.desired, Desired::Image { reference, .. } if reference.to_string() == attempt.to) => {
                self.begin(|to, _| Step::Apply { to })
            }
            _ => self.settled(),
        }
    }

    /// No attempt of ours is in progress.
    fn settled(&self) -> Decided {
        match (&self.managed.progress, self.in_other_hands()) {
            (Progress::Updating | Progress::RollingBack, Some(reason)) => {
                Row::I14.wait(reason, self.now + span(self.policy.healthy_time))
            }
            (_, Some(reason)) => Row::I15.rest(reason),
            (_, None) => self.begin(|to, intent| Step::Begin { to, intent }),
        }
    }

    /// The update by someone else that is in progress, or paused.
    fn in_other_hands(&self) -> Option<Reason> {
        let orchestrator = self.managed.orchestrator.name();
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

    /// Whether the desired image may be tried now.
    fn begin(&self, step: impl FnOnce(ImageReference, Intent) -> Step) -> Decided {
        let start = self.start();
        let blocked = start.blockers().into_iter().next();
        let wanted = match self.desired {
            Desired::Image {
                reference, intent, ..
            } => Some((reference, *intent)),
            Desired::Keep(_) => None,
        };
        let is_free = blocked.is_none() || start.is_staged();
        match (wanted, blocked) {
            (Some((_, Intent::Upgrade)), _) if is_free && self.facts.holds.is_none() => {
                Row::I17.decide(Decision::LearnHolds)
            }
            _ if let Some(image) = start.unseen() => Row::I18.act(Step::NoteFirstSeen {
                image: image.to_owned(),
            }),
            (_, Some(blocker)) => Row::I16.rest(blocker.reason),
            (Some((_, Intent::Upgrade)), None) if self.facts.holds_are_old => {
                Row::I17.decide(Decision::LearnHolds)
            }
            (Some((reference, intent)), None) => Row::I19.act(step(reference.clone(), intent)),
            (None, None) => Row::I16.rest(not_asked()),
        }
    }

    /// The facts that the list of blockers depends on.
    fn start(&self) -> Start<'_> {
        let (managed, record) = (self.managed, &self.managed.record);
        let wanted = match self.desired {
            Desired::Image { reference, .. } => Some(reference.to_string()),
            Desired::Keep(_) => None,
        };
        let is_wanted = |image: &str| wanted.as_deref() == Some(image);
        let delegate = || managed.name.clone();
        let failed = record.failed.as_ref().filter(|failed| is_wanted(&failed.image));
        let quarantined = failed.and_then(|failed| {
            let until = failed.at + span(quarantine(failed.attempts));
            let (image, attempt) = (failed.image.clone(), failed.attempts);
            (self.now < until).then(|| Reason::Quarantined {
                delegate: delegate(),
                image,
                attempt,
                until,
            })
        });
        let left = record.rolled_back_from.clone().filter(|left| is_wanted(left));
        let to = managed.image.to_string();
        Start {
            left_alone: managed.left_alone.clone(),
            health_only: self.policy.health_only,
            in_other_hands: self.in_other_hands(),
            rolled_back: left.map(|image| Reason::RolledBack {
                delegate: delegate(),
                image,
                to,
            }),
            quarantined,
            expiry: managed.image.expiry(),
            holds: self.facts.holds.as_ref(),
            ..Start::new(
                self.desired,
                &managed.limits,
                &self.policy.timing,
                &self.facts.run,
                self.now,
            )
        }
    }

    fn rolling_out(&self) -> Reason {
        let tasks = &self.managed.tasks;
        Reason::RollingOut {
            orchestrator: self.managed.orchestrator.name(),
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

    /// The orchestrator's words, and those of the task that failed.
    fn explained(&self, message: &str, attempt: &Attempt) -> String {
        match self.last_failure_of(attempt) {
            Some(failure) => format!("{message} ({failure})"),
            None => message.to_owned(),
        }
    }

    fn last_failure_of(&self, attempt: &Attempt) -> Option<String> {
        self.failure_of(attempt).map(|failure| failure.error.clone())
    }

    fn failure_of(&self, attempt: &Attempt) -> Option<&TaskFailure> {
        let failure = self.managed.tasks.last_failure.as_ref();
        failure.filter(|failure| failure.image == attempt.to && failure.at >= attempt.since)
    }

    /// Whether a task ended lately that had not run for long. Otherwise the tasks that no longer run went with their node, or
    /// had proven the image.
    fn ends_early(&self, attempt: &Attempt) -> bool {
        let long = self.policy.healthy_time * 2;
        let failure = self.failure_of(attempt);
        let lately = failure.filter(|failure| self.now < failure.at + span(long));
        lately.is_some_and(|failure| failure.ran_for.is_none_or(|ran_for| ran_for < long))
    }
}

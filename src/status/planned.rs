//! The action of a run on each delegate, as `plan` and `doctor` show it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::health::HealthStatus;
use crate::image::Version;
use crate::managed::{self, Managed};
use crate::rollout::reason::{Reason, ReasonKind};
use crate::rollout::{Blocker, ChosenOrder, Decision, Fact, Intent, Rollout, Step, StopTimeoutSource};
use crate::text::{duration, time};

/// The action that a scheduled run would take on one delegate if it started now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Planned {
    /// The container's name.
    pub container: String,
    /// Its `DELEGATE_NAME`.
    pub workload: String,
    /// The image it runs.
    pub image: String,
    /// `healthy`, `starting` or `unhealthy`.
    pub health: HealthStatus,
    /// `replace`, `restart`, `continue` or `leave`.
    pub action: &'static str,
    /// The first step, or the reason why there is none.
    pub message: String,
    /// `start-first` or `stop-first`, if it would be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_order: Option<String>,
    /// Why nothing would be done, if the action is `leave`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonKind>,
    /// When that reason ends by itself, if that is known.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub until: Option<DateTime<Utc>>,
    /// The exact obstacle or problem, if the reason covers several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// Why no upgrade starts now, beginning with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
    /// Whether the delegate could not be served.
    pub failed: bool,
    /// Sentences about risky settings, and about a version whose support has ended or will end soon.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Planned {
    /// The row of a workload that an orchestrator manages.
    pub fn of_managed(
        managed: &Managed,
        decision: &managed::Decision,
        blockers: &[Blocker],
        warnings: Vec<String>,
    ) -> Self {
        use managed::{Decision, Step};
        let image = managed.image.to_string();
        let (action, message, reason) = match decision {
            Decision::Act(Step::NoteFirstSeen { .. }) | Decision::Learn(_)
                if let Some(first) = blockers.first() =>
            {
                ("leave", first.reason.to_string(), Some(&first.reason))
            }
            Decision::Act(step @ (Step::Begin { to, .. } | Step::Apply { to })) => {
                let by: &str = managed.orchestrator.into();
                let message = match step.new_settings(managed) {
                    Some(_) => format!("have {by} roll it out"),
                    None => format!("have {by} replace {image} with {to}"),
                };
                ("replace", message, None)
            }
            Decision::Rest(reason) | Decision::Wait { reason, .. } => {
                ("leave", reason.to_string(), Some(reason))
            }
            Decision::Act(step) => ("continue", step.words(managed), None),
            Decision::Learn(_) => ("continue", String::new(), None),
        };
        Self {
            container: managed.name.clone(),
            workload: managed.workload.clone(),
            image,
            health: managed.health(),
            action,
            message,
            warnings,
            blockers: blockers.to_vec(),
            ..Self::because(reason)
        }
    }

    /// The row of an orchestrator's workload that is missing or not as expected.
    pub fn absent(name: &str, reason: &Reason) -> Self {
        Self {
            container: name.to_owned(),
            workload: name.to_owned(),
            message: reason.to_string(),
            ..Self::because(Some(reason))
        }
    }

    /// The row of a delegate about which nothing else is known. Without a reason, there would be something to do.
    fn because(reason: Option<&Reason>) -> Self {
        Self {
            action: "leave",
            failed: reason.is_some_and(Reason::is_failure),
            reason: reason.map(Reason::kind),
            until: reason.and_then(Reason::ends_at),
            cause: reason.and_then(Reason::cause),
            ..Self::default()
        }
    }

    /// The row of one delegate.
    pub fn new(
        rollout: &Rollout,
        decision: &Decision,
        blockers: &[Blocker],
        update_order: &ChosenOrder,
    ) -> Self {
        let representative = rollout.representative();
        let runs = representative.map(|member| &member.image);
        let image = runs.map(ToString::to_string).unwrap_or_default();
        let (action, message, reason) = match decision {
            Decision::Learn(Fact::Holds) if let Some(first) = blockers.first() => {
                ("leave", first.reason.to_string(), Some(&first.reason))
            }
            Decision::Act(step @ (Step::Pull { reference } | Step::Create { reference, .. })) => {
                let older = if runs.is_some_and(|runs| Version::is_older(reference, runs)) {
                    "the older "
                } else {
                    ""
                };
                let because = match (update_order, &rollout.single_instance) {
                    (ChosenOrder::StopFirst, Some(conflict)) => format!(" because {conflict}"),
                    _ => String::new(),
                };
                let trial = if *update_order == ChosenOrder::StopFirst && !rollout.is_upgrader() {
                    ", once a trial has shown that Docker can start another one"
                } else {
                    ""
                };
                let serving = rollout.serving.as_ref().filter(|_| !rollout.is_upgrader());
                let weak = if serving.is_some_and(|serving| serving.health.is_weak()) {
                    "; its health endpoint cannot be reached, so HEALTH_COMMAND proves the new container, or that it runs"
                } else {
                    ""
                };
                let time =
                    serving.filter(|serving| serving.stop_timeout_source != StopTimeoutSource::Setting);
                let time = time.map_or_else(String::new, |serving| {
                    let (limit, source) = (duration::text(serving.stop_timeout), serving.stop_timeout_source);
                    format!("; it has up to {limit} to finish its tasks, by {source}")
                });
                let what = match step {
                    Step::Create {
                        intent: Intent::Reconfigure(..),
                        ..
                    } => "recreate it".to_owned(),
                    _ => format!("replace {image} with {older}{reference}"),
                };
                let message = format!("{what}, {update_order}{because}{trial}{weak}{time}");
                ("replace", message, None)
            }
            Decision::Rest(reason) | Decision::Wait { reason, .. } => {
                ("leave", reason.to_string(), Some(reason))
            }
            Decision::Act(Step::Restart { .. }) => ("restart", decision.to_string(), None),
            Decision::Act(_) | Decision::Learn(_) => ("continue", decision.to_string(), None),
        };
        Self {
            container: rollout.name.clone(),
            workload: rollout.workload.clone(),
            image,
            health: representative.map_or(HealthStatus::Unhealthy, |member| member.health.status),
            action,
            message,
            update_order: (action == "replace").then(|| update_order.to_string()),
            blockers: blockers.to_vec(),
            ..Self::because(reason)
        }
    }
}

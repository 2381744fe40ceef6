//! At the end of a story, for every published image: `plan` says what a run at that moment does, and the status of a
//! daemon that waits for its schedule is the plan plus the schedule.

use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::reason::ReasonKind;
use delegate_upgrader::rollout::{Blocker, Intent};
use delegate_upgrader::status::planned::Planned;
use delegate_upgrader::status::report::Report;
use kit::twin::{Call, Operation};
use tokio::time::{sleep, timeout};

use super::upgraders::{OBSERVER, reconciler};
use super::world::World;

/// The contradictions, and the number of compared answers.
pub async fn contradictions(world: &Arc<World>) -> (Vec<String>, u64) {
    let (mut found, mut compared) = (Vec::new(), 0);
    // The next image meets the changes of a run that was killed.
    for image in (0..world.scenario.images.len())
        .cycle()
        .take(2 * world.scenario.images.len())
    {
        world.publish(image);
        let Ok(plan) = reconciler(world, OBSERVER).plan(|_| ()).await else {
            continue;
        };
        let Some(status) = rested(world, Intent::Report).await else {
            continue;
        };
        let before = world.twin.writes().len();
        let run = timeout(Duration::from_secs(30), begun(world, before))
            .await
            .ok()
            .flatten();
        let first = world.twin.writes().get(before).cloned();
        let first = first.filter(|call| !looks_whether_it_moved(call, &plan));
        for planned in &plan {
            compared += 1;
            found.extend(against_status(planned, &status));
            found.extend(against_run(planned, run.as_ref()));
        }
        let is_to_do = plan.iter().any(|planned| planned.action != "leave");
        if is_to_do != first.is_some() {
            found.push(format!(
                "the plan is {plan:?}, and the run's first change is about {first:?}"
            ));
        }
    }
    (found, compared)
}

/// Whether a run pulls a quarantined tag to see whether it has moved. A plan cannot know the outcome.
fn looks_whether_it_moved(call: &Call, plan: &[Planned]) -> bool {
    let is_quarantined = |planned: &Planned| {
        planned.reason == Some(ReasonKind::Quarantined) && planned.message.starts_with(&call.subject)
    };
    call.operation == Operation::Pull && plan.iter().any(is_quarantined)
}

/// The report of a new process, once it no longer waits for an answer.
async fn rested(world: &Arc<World>, mode: Intent) -> Option<Report> {
    let mut reconciler = reconciler(world, OBSERVER);
    // Before its first run, a daemon only reports and asks.
    reconciler.start_run(mode);
    for _ in 0..20 {
        let report = reconciler.reconcile().await.ok()?;
        let waits = [ReasonKind::AwaitingAnswer, ReasonKind::Pulling];
        let mut rows = report.delegates.iter();
        let is_open = rows.any(|row| {
            let listed = row.blockers.iter().map(|blocker| blocker.reason.kind());
            listed.chain([row.reason]).any(|reason| waits.contains(&reason))
        });
        if !is_open {
            return Some(report);
        }
        timeout(Duration::from_secs(1), reconciler.answered()).await.ok();
    }
    None
}

/// The report of a run that changes nothing; `None` if it changes something, at which point it is killed.
async fn begun(world: &Arc<World>, before: usize) -> Option<Report> {
    let changes = async {
        while world.twin.writes().len() == before {
            sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        biased;
        () = changes => None,
        report = rested(world, Intent::Upgrade) => report,
    }
}

fn beside_schedule(blockers: &[Blocker]) -> Vec<String> {
    let reasons = blockers.iter().map(|blocker| &blocker.reason);
    let reasons = reasons.filter(|reason| reason.kind() != ReasonKind::AwaitingSchedule);
    reasons.map(ToString::to_string).collect()
}

fn against_status(planned: &Planned, status: &Report) -> Option<String> {
    let row = status.rows().find(|row| row.container == planned.container)?;
    let is_same = match planned.action {
        // A daemon says first why it does not restart an unhealthy delegate, which its run replaces.
        "replace" => [ReasonKind::AwaitingSchedule, ReasonKind::RestartDeferred].contains(&row.reason),
        "leave" => planned.reason == Some(row.reason) && planned.message == row.message,
        _ => return None,
    };
    let blockers = (beside_schedule(&planned.blockers), beside_schedule(&row.blockers));
    (!is_same || blockers.0 != blockers.1).then(|| {
        format!(
            "{}: the plan says {:?} ({:?}), the status {:?} ({:?})",
            planned.container, planned.message, blockers.0, row.message, blockers.1
        )
    })
}

fn against_run(planned: &Planned, run: Option<&Report>) -> Option<String> {
    let row = run?.rows().find(|row| row.container == planned.container)?;
    let is_same = planned.action == "leave" && planned.reason == Some(row.reason);
    (!is_same).then(|| {
        format!(
            "{}: the plan says {:?}, the run {:?}",
            planned.container, planned.message, row.message
        )
    })
}

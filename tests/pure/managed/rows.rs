//! The rows of docs/development/managed.md: each decides in a scene, and the scenes are in their order.

use delegate_upgrader::managed::Row;

use super::*;

/// A workload for each row, with the wanted image; each scene matches the row's sentence.
fn scenes() -> Vec<(Row, Managed, Desired)> {
    let elsewhere = |progress| Managed {
        progress,
        ..service()
    };
    let mut proving = tried(settled());
    proving.tasks.running = 2;
    let mut late = tried(Progress::Updating);
    late.tasks.last_started_at = Some(ago(660));
    late.record.attempt.as_mut().unwrap().since = ago(660);
    let mut idle = tried(settled());
    idle.tasks = Tasks::default();
    let failed = |progress| {
        let mut managed = back(progress, true);
        managed.record.attempt.as_mut().unwrap().failed = Some("it failed".to_owned());
        managed
    };
    let third = Managed {
        orchestrator: Orchestrator::Kubernetes,
        image: ImageName::from(THIRD),
        ..tried(settled())
    };
    let left_alone = Managed {
        left_alone: Some(Reason::SwarmOff),
        ..service()
    };
    vec![
        (Row::CallFailed, service(), wanted(NEW)),
        (Row::LeftAlone, left_alone, wanted(NEW)),
        (Row::HealthOnly, service(), wanted(NEW)),
        (Row::RollingOut, tried(Progress::Updating), wanted(NEW)),
        (Row::Proving, proving, wanted(NEW)),
        (Row::TooLate, late, wanted(NEW)),
        (Row::Stopped, tried(paused(true)), wanted(NEW)),
        (Row::NotVerified, idle, keep()),
        (Row::RollingBack, failed(Progress::Updating), wanted(NEW)),
        (Row::Failed, failed(settled()), wanted(NEW)),
        (Row::WentBack, back(settled(), true), wanted(NEW)),
        (Row::ThirdImage, third, wanted(NEW)),
        (Row::UpdatedElsewhere, elsewhere(Progress::Updating), wanted(NEW)),
        (Row::UpdatePaused, elsewhere(paused(true)), wanted(NEW)),
        (Row::HoldsUnknown, service(), wanted(NEW)),
        (Row::FirstSeen, service(), wanted(NEW)),
        (Row::Blocked, service(), keep()),
        (Row::Begin, service(), wanted(NEW)),
    ]
}

/// `next` asks the rows in the order of the page, so a scene's row is the first that holds there.
#[test]
fn each_row_decides_in_its_scene() {
    let mut rows = Row::TABLES.iter().flat_map(|(_, rows)| *rows);
    for (row, managed, desired) in scenes() {
        assert_eq!(rows.next().map(|(row, _)| *row), Some(row));
        let (mut policy, mut facts) = (policy(), facts());
        match row {
            Row::CallFailed => facts = beginning::failed_call(now() + TimeDelta::seconds(2)),
            Row::HealthOnly => policy.health_only = true,
            Row::HoldsUnknown => facts.holds = None,
            Row::FirstSeen => {
                policy.timing.delay = Duration::from_secs(3600);
                facts = beginning::holds(None, None);
            }
            _ => {}
        }
        let (decided, _) = next(&managed, &desired, &policy, &facts, now());
        assert_eq!(decided.row, row, "{decided:?}");
    }
    assert_eq!(rows.next(), None);
}

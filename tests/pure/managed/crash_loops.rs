//! Images whose tasks keep ending after a while.

use super::*;

/// Two tasks end in turn, each this many seconds after its start, in an update that was complete at the beginning. Returns
/// the seconds after which the image is rolled back, if ever.
fn rolled_back_after(life: i64, restart: i64) -> Option<i64> {
    let cycle = life + restart;
    (0..4000).step_by(2).find(|second| {
        let begun = |offset: i64| {
            let into = (second + offset) % cycle;
            (into < life).then_some(into)
        };
        let ages: Vec<i64> = [0, cycle / 2].into_iter().filter_map(begun).collect();
        let managed = Managed {
            tasks: Tasks {
                wanted: 2,
                running: ages.len() as u64,
                last_started_at: ages.iter().min().map(|age| ago(*age)),
                last_failure: Some(TaskFailure {
                    ran_for: Duration::from_secs((life + restart).unsigned_abs()).into(),
                    ..failure(NEW, 1)
                }),
            },
            record: Record {
                attempt: Some(Attempt {
                    since: ago(second + 60),
                    ..attempt(true)
                }),
                ..Record::default()
            },
            ..tried(completed(*second))
        };
        matches!(decide(&managed, &keep()), Decision::Act(Step::RollBack { .. }))
    })
}

/// A new start is not progress: the deadline runs from the moment when Swarm was content.
#[test]
fn an_image_that_keeps_exiting_before_it_is_proven_is_rolled_back() {
    for (life, restart) in [(10, 5), (50, 5), (55, 20), (59, 1)] {
        let after = rolled_back_after(life, restart);
        assert!(
            after.is_some_and(|after| after <= 660 + life + restart),
            "{life} s, {restart} s: {after:?}"
        );
    }
}

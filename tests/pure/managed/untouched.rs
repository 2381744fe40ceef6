//! Writes that never happen, in whatever state a workload is.

use super::*;

fn attempts() -> Vec<Option<Attempt>> {
    let failed = Attempt {
        failed: Some("it failed".to_owned()),
        ..attempt(true)
    };
    vec![None, Some(attempt(false)), Some(attempt(true)), Some(failed)]
}

fn all_progress() -> Vec<Progress> {
    vec![
        settled(),
        completed(700),
        Progress::Updating,
        paused(true),
        paused(false),
        Progress::RollingBack,
        went_back(),
        stuck_rollback(),
    ]
}

/// Every combination of a workload's states.
fn each(mut look: impl FnMut(&Managed, &Desired)) {
    let desired = [keep(), wanted(OLD), wanted(NEW), wanted(THIRD)];
    for image in [OLD, NEW, THIRD] {
        for attempt in attempts() {
            for progress in all_progress() {
                for (running, started) in [(2, 10), (2, 5000), (1, 5000), (0, 5000)] {
                    for last_failure in [None, Some(failure(NEW, 50)), Some(failure(OLD, 50))] {
                        let managed = Managed {
                            image: ImageName::from(image),
                            progress: progress.clone(),
                            record: Record {
                                attempt: attempt.clone().map(|attempt| Attempt {
                                    since: ago(5000),
                                    ..attempt
                                }),
                                ..Record::default()
                            },
                            tasks: Tasks {
                                wanted: 2,
                                running,
                                last_started_at: (running > 0).then(|| ago(started)),
                                last_failure,
                            },
                            ..service()
                        };
                        for desired in &desired {
                            look(&managed, desired);
                        }
                    }
                }
            }
        }
    }
}

/// Each update of a service ends the one in progress, and Swarm forgets how far that one was.
#[test]
fn only_a_rollback_is_written_while_an_update_is_running() {
    let (mut seen, mut ways_back) = (0, 0);
    each(|managed, desired| {
        if !matches!(managed.progress, Progress::Updating | Progress::RollingBack) {
            return;
        }
        seen += 1;
        match decide(managed, desired) {
            Decision::Act(Step::RollBack { to, .. }) => {
                assert_eq!((managed.image.as_str(), to.as_str()), (NEW, OLD));
                assert_eq!(managed.progress, Progress::Updating);
                ways_back += 1;
            }
            Decision::Wait { .. } | Decision::Rest(_) => {}
            other => panic!("{other:?} for {managed:#?}"),
        }
    });
    assert!(seen > 500 && ways_back > 50, "{seen}, {ways_back}");
}

#[test]
fn reports_pause_by_someone_else() {
    each(|managed, desired| {
        let is_ours = managed
            .record
            .attempt
            .as_ref()
            .is_some_and(|attempt| [&attempt.from, &attempt.to].contains(&&managed.image.to_string()));
        if is_ours
            || !matches!(
                managed.progress,
                Progress::Paused { .. } | Progress::RollbackPaused { .. }
            )
        {
            return;
        }
        assert_eq!(reason(managed, desired), ReasonKind::UpdatePaused, "{managed:#?}");
    });
}

/// An image is applied only after it was recorded, and taken back only to the recorded image.
#[test]
fn no_step_uses_an_unrecorded_image() {
    each(|managed, desired| {
        let Decision::Act(step) = decide(managed, desired) else {
            return;
        };
        let attempt = managed.record.attempt.as_ref();
        let (from, to) = attempt.map_or(("", ""), |attempt| (&attempt.from, &attempt.to));
        let is_known = match &step {
            Step::Begin { .. } | Step::NoteFirstSeen { .. } => true,
            Step::Apply { to: given } => given.to_string() == to && managed.image.as_str() == from,
            Step::RollBack { to: back, .. } => back == from && managed.image.as_str() == to,
            Step::Quarantine { image, .. } | Step::NoteRollback { from: image } => image == to,
        };
        assert!(is_known, "{step:?} for {managed:#?}");
    });
}

/// Swarm does nothing more after its own rollback has failed, so the upgrader asks nothing more of it.
#[test]
fn a_failed_rollback_is_final() {
    let mut failed = back(stuck_rollback(), false);
    failed.tasks.last_failure = Some(failure(NEW, 50));
    assert!(matches!(step(&failed, &wanted(NEW)), Step::Quarantine { image, .. } if image == NEW));
    failed.record = failed.quarantined(NEW, "it failed", now());
    for desired in [keep(), wanted(NEW), wanted(THIRD)] {
        assert_eq!(reason(&failed, &desired), ReasonKind::UpdatePaused);
    }
}

//! The table of an orchestrator's rollout, with one state of a workload per line.

mod beginning;
mod crash_loops;
mod digests;
mod page;
mod rows;
mod untouched;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::config::{Timing, UpdateOrder};
use delegate_upgrader::container::Request;
use delegate_upgrader::image::{ImageName, ImageReference};
use delegate_upgrader::managed::{
    Attempt, Decision, Ending, Facts, FailedImage, Managed, Orchestrator, Past, Progress, Record,
    SettingsChange, Step, TaskFailure, Tasks, next,
};
use delegate_upgrader::rollout::reason::{Reason, ReasonKind};
use delegate_upgrader::rollout::{Desired, Intent, OwnerSettings, Policy};

const OLD: &str =
    "harness/delegate:26.01.1@sha256:1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str =
    "harness/delegate:26.02.2@sha256:2222222222222222222222222222222222222222222222222222222222222222";
const THIRD: &str =
    "harness/delegate:26.03.3@sha256:3333333333333333333333333333333333333333333333333333333333333333";

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn ago(seconds: i64) -> DateTime<Utc> {
    now() - TimeDelta::seconds(seconds)
}

fn policy() -> Policy {
    Policy {
        health_only: false,
        update_order: UpdateOrder::Auto,
        healthy_time: Duration::from_secs(60),
        healthy_deadline: Duration::from_secs(600),
        idle_wait: Duration::ZERO,
        restarts_unhealthy: false,
        timing: Timing::default(),
    }
}

/// Two tasks that have run the old image for an hour.
fn service() -> Managed {
    Managed {
        orchestrator: Orchestrator::Swarm,
        id: "id".to_owned(),
        name: "delegate".to_owned(),
        workload: "docker-delegate".to_owned(),
        image: ImageName::from(OLD),
        settings: SettingsChange::default(),
        revision: None,
        updated_at: None,
        progress: settled(),
        tasks: tasks(2, 3600),
        record: Record::default(),
        left_alone: None,
        limits: OwnerSettings::default(),
        pace: Duration::from_secs(60),
    }
}

/// A task of this image that failed this many seconds ago.
fn failure(image: &str, seconds: i64) -> TaskFailure {
    TaskFailure {
        at: ago(seconds),
        image: image.to_owned(),
        settings: 0,
        error: "task: non-zero exit (2)".to_owned(),
        ran_for: None,
    }
}

fn attempt(is_applied: bool) -> Attempt {
    Attempt {
        from: OLD.to_owned(),
        to: NEW.to_owned(),
        since: ago(100),
        revision: None,
        intent: Intent::Upgrade,
        is_applied,
        failed: None,
    }
}

/// The same while the new image is being tried.
fn tried(progress: Progress) -> Managed {
    Managed {
        image: ImageName::from(NEW),
        progress,
        record: Record {
            attempt: Some(attempt(true)),
            ..Record::default()
        },
        tasks: tasks(1, 50),
        ..service()
    }
}

/// The same after the old image came back.
fn back(progress: Progress, is_applied: bool) -> Managed {
    Managed {
        record: Record {
            attempt: Some(attempt(is_applied)),
            ..Record::default()
        },
        progress,
        ..service()
    }
}

fn settled() -> Progress {
    Progress::Settled { completed_at: None }
}

fn completed(seconds: i64) -> Progress {
    let completed_at = Some(ago(seconds));
    Progress::Settled { completed_at }
}

fn paused(by_failure: bool) -> Progress {
    let message = "update paused due to failure".to_owned();
    Progress::Paused { by_failure, message }
}

fn went_back() -> Progress {
    let message = "rollback completed".to_owned();
    Progress::RolledBack { message }
}

fn stuck_rollback() -> Progress {
    let message = "rollback paused due to failure".to_owned();
    Progress::RollbackPaused { message }
}

/// Two tasks, of which this many run; the last start was this many seconds ago.
fn tasks(running: u64, got_on: i64) -> Tasks {
    Tasks {
        wanted: 2,
        running,
        last_started_at: Some(ago(got_on)),
        last_failure: None,
    }
}

fn wanted(image: &str) -> Desired {
    Desired::Image {
        reference: image.parse().unwrap(),
        id: None,
        intent: Intent::Upgrade,
    }
}

fn facts() -> Facts {
    Facts {
        // If nothing can be read, nothing is paused on this host.
        holds: Some(Err("not read".to_owned())),
        ..Facts::default()
    }
}

fn decide(managed: &Managed, desired: &Desired) -> Decision {
    next(managed, desired, &policy(), &facts(), now()).0.decision
}

fn reason(managed: &Managed, desired: &Desired) -> ReasonKind {
    match decide(managed, desired) {
        Decision::Wait { reason, .. } | Decision::Rest(reason) => reason.kind(),
        other => panic!("{other:?}"),
    }
}

fn step(managed: &Managed, desired: &Desired) -> Step {
    match decide(managed, desired) {
        Decision::Act(step) => step,
        other => panic!("{other:?}"),
    }
}

fn keep() -> Desired {
    Desired::Keep(Reason::AwaitingSchedule { published: None })
}

#[test]
fn an_attempt_is_recorded_before_it_is_made() {
    assert!(matches!(step(&service(), &wanted(NEW)), Step::Begin { .. }));
    let begun = back(settled(), false);
    assert!(matches!(step(&begun, &wanted(NEW)), Step::Apply { .. }));
    // Another image has been published meanwhile.
    assert!(matches!(step(&begun, &wanted(THIRD)), Step::Begin { .. }));
    assert_eq!(reason(&begun, &keep()), ReasonKind::AwaitingSchedule);
}

#[test]
fn a_rollout_is_followed_to_its_end_and_beyond() {
    assert_eq!(
        reason(&tried(Progress::Updating), &keep()),
        ReasonKind::RollingOut
    );
    let complete = |started: i64, completed: i64| Managed {
        tasks: tasks(2, started),
        ..tried(self::completed(completed))
    };
    assert_eq!(reason(&complete(30, 20), &keep()), ReasonKind::Proving);
    assert_eq!(reason(&complete(60, 20), &keep()), ReasonKind::AwaitingSchedule);
    // The update was complete, and then one of the tasks ended: it has until the deadline to run again.
    let lame = |got_on: i64, completed: i64| {
        let mut managed = tried(self::completed(completed));
        managed.tasks.last_started_at = Some(ago(got_on));
        managed.record.attempt.as_mut().unwrap().since = ago(10_000);
        managed
    };
    assert_eq!(reason(&lame(50, 40), &keep()), ReasonKind::RollingOut);
    // Later the time that it had run matters.
    let ended = |ran_for: Option<u64>| {
        let mut managed = lame(700, 690);
        let ran_for = ran_for.map(Duration::from_secs);
        let failure = failure(NEW, 1);
        managed.tasks.last_failure = Some(TaskFailure { ran_for, ..failure });
        managed
    };
    for ran_for in [None, Some(119)] {
        assert!(matches!(step(&ended(ran_for), &keep()), Step::RollBack { to, .. } if to == OLD));
    }
    assert_eq!(reason(&ended(Some(120)), &keep()), ReasonKind::RollingOut);
    let mut long_ago = ended(Some(5));
    long_ago.tasks.last_failure.as_mut().unwrap().at = ago(120);
    assert_eq!(reason(&long_ago, &keep()), ReasonKind::RollingOut);
    // All run again, but have not proved it yet.
    let again = |ran_for: Option<u64>| {
        let mut managed = ended(ran_for);
        managed.tasks.running = 2;
        managed.tasks.last_started_at = Some(ago(1));
        managed
    };
    assert!(matches!(step(&again(Some(5)), &keep()), Step::RollBack { to, .. } if to == OLD));
    assert_eq!(reason(&again(Some(120)), &keep()), ReasonKind::Proving);
    let soon = Managed {
        tasks: ended(Some(5)).tasks,
        ..lame(50, 40)
    };
    assert_eq!(reason(&soon, &keep()), ReasonKind::RollingOut);
    assert_eq!(reason(&lame(700, 690), &keep()), ReasonKind::RollingOut);
    // Without the time of its completion, no task is known to have run.
    let mut unknown = lame(700, 690);
    unknown.progress = settled();
    unknown.record.attempt.as_mut().unwrap().since = ago(700);
    assert!(matches!(step(&unknown, &keep()), Step::RollBack { to, .. } if to == OLD));
    // Long after the completion, that says nothing about the image.
    assert_eq!(reason(&lame(9000, 8000), &keep()), ReasonKind::AwaitingSchedule);
    let scaled_to_zero = Managed {
        tasks: Tasks::default(),
        ..tried(settled())
    };
    assert_eq!(reason(&scaled_to_zero, &keep()), ReasonKind::NotVerified);
    assert!(matches!(
        step(&scaled_to_zero, &wanted(THIRD)),
        Step::Begin { .. }
    ));
}

#[test]
fn a_stalled_rollout_is_rolled_back() {
    let mut stuck = tried(Progress::Updating);
    for (got_on, expected) in [(659, false), (660, true)] {
        stuck.tasks.last_started_at = Some(ago(got_on));
        stuck.record.attempt.as_mut().unwrap().since = ago(10_000);
        let decision = decide(&stuck, &keep());
        assert_eq!(
            matches!(decision, Decision::Act(Step::RollBack { .. })),
            expected,
            "{got_on}"
        );
    }
    // A node with a slow clock ends nothing too early.
    stuck.tasks.last_started_at = Some(ago(10_000));
    stuck.record.attempt.as_mut().unwrap().since = ago(100);
    assert_eq!(reason(&stuck, &keep()), ReasonKind::RollingOut);
    assert!(matches!(step(&tried(paused(true)), &keep()), Step::RollBack { to, .. } if to == OLD));
    // A person paused it.
    assert_eq!(reason(&tried(paused(false)), &keep()), ReasonKind::UpdatePaused);
}

#[test]
fn a_failed_image_is_quarantined_once_the_update_has_ended() {
    // A person asked for that: nothing has failed.
    let mut going_back = back(Progress::RollingBack, false);
    assert_eq!(reason(&going_back, &keep()), ReasonKind::UpdatedElsewhere);
    going_back.tasks.last_failure = Some(failure(NEW, 50));
    assert_eq!(reason(&going_back, &keep()), ReasonKind::RollingBack);
    let mut failed = back(went_back(), false);
    failed.tasks.last_failure = Some(failure(NEW, 50));
    let Step::Quarantine { image, cause } = step(&failed, &wanted(NEW)) else {
        panic!("{:?}", step(&failed, &wanted(NEW)));
    };
    assert_eq!(image, NEW);
    assert!(cause.contains("task: non-zero exit (2)"), "{cause}");
    // A task of the previous image does not count, and neither does a failure of an earlier attempt.
    failed.tasks.last_failure = Some(failure(OLD, 50));
    assert!(matches!(step(&failed, &wanted(NEW)), Step::NoteRollback { .. }));
    failed.tasks.last_failure = Some(failure(NEW, 500));
    assert!(matches!(step(&failed, &wanted(NEW)), Step::NoteRollback { .. }));
    // It was undone because no task found a node; whichever process did that, the record says so.
    failed.record.attempt.as_mut().unwrap().failed = Some("0 of 2 ran".to_owned());
    failed.progress = Progress::Updating;
    assert_eq!(reason(&failed, &wanted(NEW)), ReasonKind::RollingBack);
    failed.progress = settled();
    let Step::Quarantine { cause, .. } = step(&failed, &wanted(NEW)) else {
        panic!("{:?}", step(&failed, &wanted(NEW)));
    };
    assert_eq!(cause, "0 of 2 ran");
}

/// A Deployment keeps showing the exceeded deadline of the failed image until its way back shows.
#[test]
fn waits_for_its_own_rollback_of_a_deployment() {
    let mut managed = Managed {
        orchestrator: Orchestrator::Kubernetes,
        ..back(paused(true), true)
    };
    let attempt = managed.record.attempt.as_mut().unwrap();
    attempt.failed = Some("it timed out".to_owned());
    assert_eq!(reason(&managed, &wanted(NEW)), ReasonKind::RollingBack);
    managed.record.attempt.as_mut().unwrap().since = ago(24 * 3600);
    assert!(matches!(step(&managed, &wanted(NEW)), Step::Quarantine { .. }));
    // A failed rollback has left nothing: the workload is back on the image that the rollback should have left.
    managed.record.rolled_back_from = Some(managed.image.to_string());
    let record = managed.quarantined(NEW, "it failed", now());
    assert_eq!(record.rolled_back_from, None);
}

#[test]
fn respects_rollback_by_hand() {
    // By `docker service rollback`, and by `docker service update --image`.
    for managed in [back(went_back(), false), back(settled(), true)] {
        let noted = step(&managed, &wanted(NEW));
        assert_eq!(noted, Step::NoteRollback { from: NEW.to_owned() });
        let managed = Managed {
            record: managed.rolled_back(NEW, now()),
            progress: settled(),
            ..managed
        };
        assert_eq!(reason(&managed, &wanted(NEW)), ReasonKind::RolledBack);
        assert!(matches!(step(&managed, &wanted(THIRD)), Step::Begin { .. }));
    }
}

#[test]
fn leaves_alone_update_started_by_someone_else() {
    for (progress, expected) in [
        (Progress::Updating, ReasonKind::UpdatedElsewhere),
        (Progress::RollingBack, ReasonKind::UpdatedElsewhere),
        (stuck_rollback(), ReasonKind::UpdatePaused),
    ] {
        let managed = Managed {
            progress,
            ..service()
        };
        assert_eq!(reason(&managed, &wanted(NEW)), expected);
    }
    // A person set a third image while ours was being tried.
    let managed = Managed {
        image: ImageName::from(THIRD),
        ..tried(Progress::Updating)
    };
    assert_eq!(reason(&managed, &wanted(NEW)), ReasonKind::UpdatedElsewhere);
}

/// Of a Deployment its revision shows that, and of a service the time of the update.
#[test]
fn an_update_of_a_proven_image_by_someone_else_is_not_judged() {
    for (progress, expected) in [
        (Progress::Updating, ReasonKind::UpdatedElsewhere),
        (paused(true), ReasonKind::UpdatePaused),
    ] {
        for (revision, updated_at, is_ours) in [
            (Some(8), None, true),
            (Some(9), None, false),
            (None, Some(ago(4500)), true),
            (None, Some(ago(4200)), false),
        ] {
            let mut managed = tried(progress.clone());
            managed.tasks.last_started_at = Some(ago(4900));
            let attempt = managed.record.attempt.as_mut().unwrap();
            (attempt.since, attempt.revision) = (ago(5000), Some(7));
            (managed.revision, managed.updated_at) = (revision, updated_at);
            let decision = decide(&managed, &keep());
            if is_ours {
                assert!(
                    matches!(decision, Decision::Act(Step::RollBack { .. })),
                    "{decision:?}"
                );
            } else {
                assert_eq!(reason(&managed, &keep()), expected);
            }
            managed.progress = completed(700);
            managed.tasks.last_failure = Some(failure(NEW, 10));
            let goes_back = matches!(decide(&managed, &keep()), Decision::Act(Step::RollBack { .. }));
            assert_eq!(goes_back, is_ours, "tasks fail after the update");
        }
    }
}

#[test]
fn quarantine_doubles_and_ends() {
    let mut managed = service();
    let mut pauses = Vec::new();
    for _ in 0..3 {
        managed.record = managed.quarantined(NEW, "it failed", now());
        let Decision::Rest(Reason::Quarantined { attempt, until, .. }) = decide(&managed, &wanted(NEW))
        else {
            panic!("{:?}", decide(&managed, &wanted(NEW)));
        };
        pauses.push((attempt, (until - now()).num_hours()));
    }
    assert_eq!(pauses, [(1, 1), (2, 2), (3, 4)]);
    assert!(matches!(step(&managed, &wanted(THIRD)), Step::Begin { .. }));
    managed.record.failed.as_mut().unwrap().at = ago(4 * 3600);
    assert!(matches!(step(&managed, &wanted(NEW)), Step::Begin { .. }));
}

#[test]
fn failures_are_numbered_without_displacing_earlier_releases() {
    let mut managed = service();
    for image in [NEW, THIRD, THIRD, THIRD, THIRD, THIRD] {
        let record = managed.begin(image, &Intent::Upgrade, now());
        managed.record = record.with_attempt(|attempt| attempt.is_applied = true);
        if image == THIRD {
            assert_eq!((managed.successful_release(), managed.release()), (1, Some(1)));
            managed.record = managed.quarantined(image, "it failed", now());
        } else {
            managed.image = ImageName::from(image);
            assert_eq!((managed.successful_release(), managed.release()), (1, Some(1)));
        }
    }
    assert_eq!((managed.record.release, managed.successful_release()), (6, 1));
    let history = managed.record.history.iter();
    let kept: Vec<_> = history
        .map(|past| (past.release, past.ending, past.image.as_str()))
        .collect();
    let failures = [4, 5, 6].map(|release| (release, Ending::Rejected, THIRD));
    let served = [(0, Ending::Original, OLD), (1, Ending::Upgraded, NEW)];
    assert_eq!(kept, [&served[..], &failures[..]].concat());
    managed.image = ImageName::from(OLD);
    assert_eq!(managed.release(), Some(0));
    managed.image = ImageName::from("harness/delegate:mine");
    assert_eq!(managed.release(), None);
}

#[test]
fn a_record_reads_as_it_was_written() {
    let past = |release, ending, image: &str| Past {
        release,
        ending,
        image: image.to_owned(),
        at: ago(9),
    };
    let record = Record {
        release: 3,
        history: vec![past(0, Ending::Original, OLD), past(3, Ending::Rejected, NEW)],
        previous_image: Some("harness/delegate:25.12.1".to_owned()),
        attempt: Some(Attempt {
            failed: Some("it failed".to_owned()),
            intent: Intent::Retry(Request::new(Some("ada"), Some("a fix"))),
            ..attempt(true)
        }),
        failed: Some(FailedImage {
            image: THIRD.to_owned(),
            attempts: 2,
            at: ago(7),
            cause: "it failed".to_owned(),
        }),
        rolled_back_from: Some(THIRD.to_owned()),
    };
    for record in [record, Record::default()] {
        let written = record.write();
        let text = |name: &str| {
            let found = written.iter().find(|(written, _)| *written == name);
            found.and_then(|(_, value)| value.as_deref())
        };
        assert_eq!(Record::read(text), record);
    }
}

#[test]
fn a_third_image_in_a_deployment_overrides_the_attempted_one() {
    let changed = |orchestrator| Managed {
        orchestrator,
        image: ImageName::from(THIRD),
        ..tried(settled())
    };
    let kubernetes = changed(Orchestrator::Kubernetes);
    let from = NEW.to_owned();
    assert_eq!(step(&kubernetes, &wanted(NEW)), Step::NoteRollback { from });
    // A different image has been published meanwhile, or an operator asks for it.
    let other = OLD.parse().unwrap();
    let intent = Intent::Upgrade;
    assert_eq!(step(&kubernetes, &wanted(OLD)), Step::Begin { to: other, intent });
    let to: ImageReference = NEW.parse().unwrap();
    let retry = Desired::Image {
        reference: to.clone(),
        id: None,
        intent: Intent::Retry(Request::default()),
    };
    assert!(matches!(step(&kubernetes, &retry), Step::Begin { to: begun, .. } if begun == to));
    // A newly deployed stack brings the image of its file, which is not a decision against the published one.
    let (to, intent) = (NEW.parse().unwrap(), Intent::Upgrade);
    assert_eq!(
        step(&changed(Orchestrator::Swarm), &wanted(NEW)),
        Step::Begin { to, intent }
    );
}

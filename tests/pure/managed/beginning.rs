//! Whether an image may be tried now, and who decides that.

use std::sync::Arc;

use delegate_upgrader::container::Request;
use delegate_upgrader::host::hold::{Holds, Paused};
use delegate_upgrader::rollout::{Backoff, Fact};
use delegate_upgrader::schedule::wave::Place;

use super::*;

pub(super) fn holds(pause: Option<Paused>, first_seen: Option<DateTime<Utc>>) -> Facts {
    Facts {
        holds: Some(Ok(Holds {
            pause,
            image: NEW.to_owned(),
            first_seen,
            place: Place::of("host", NEW),
            rejected: Vec::new(),
        })),
        ..Facts::default()
    }
}

fn asked(image: &str, intent: Intent) -> Desired {
    Desired::Image {
        reference: image.parse().unwrap(),
        id: None,
        intent,
    }
}

/// A call for the workload failed.
pub(super) fn failed_call(retry_at: DateTime<Utc>) -> Facts {
    Facts {
        backoff: Some(Backoff {
            reason: Reason::EngineError {
                step: "updating it".to_owned(),
                problem: "timeout".to_owned(),
            },
            attempts: 1,
            retry_at,
            is_beside: false,
        }),
        ..facts()
    }
}

#[test]
fn a_call_that_failed_is_not_repeated_at_once() {
    let (service, wanted, policy) = (service(), wanted(NEW), policy());
    let decided = |facts| next(&service, &wanted, &policy, &facts, now()).0.decision;
    let later = now() + TimeDelta::seconds(2);
    assert!(matches!(decided(failed_call(later)), Decision::Wait { until, .. } if until == later));
    assert!(matches!(
        decided(failed_call(now())),
        Decision::Act(Step::Begin { .. })
    ));
}

#[test]
fn host_records_are_read_before_an_image_is_tried() {
    let decided =
        |facts: &Facts, policy: &Policy| next(&service(), &wanted(NEW), policy, facts, now()).0.decision;
    let rests = |facts: &Facts, policy: &Policy| match decided(facts, policy) {
        Decision::Rest(reason) => reason.kind(),
        other => panic!("{other:?}"),
    };
    let unread = decided(&Facts::default(), &policy());
    assert_eq!(unread, Decision::Learn(Fact::Holds));
    let paused = Paused {
        since: ago(10),
        ..Paused::default()
    };
    assert_eq!(rests(&holds(Some(paused), None), &policy()), ReasonKind::Paused);
    let mut delayed = policy();
    delayed.timing.delay = Duration::from_secs(3600);
    let unseen = decided(&holds(None, None), &delayed);
    assert!(matches!(unseen, Decision::Act(Step::NoteFirstSeen { image }) if image == NEW));
    assert_eq!(
        rests(&holds(None, Some(ago(3599))), &delayed),
        ReasonKind::Delayed
    );
    let seen = decided(&holds(None, Some(ago(3600))), &delayed);
    assert!(matches!(seen, Decision::Act(Step::Begin { .. })), "{seen:?}");
}

/// An operator who names a service wants the image in spite of its failure or rollback.
#[test]
fn operator_overrules_quarantine_and_manual_rollback() {
    let failed = Managed {
        record: service().quarantined(NEW, "it failed", now()),
        ..service()
    };
    let rolled_back = Managed {
        record: service().rolled_back(NEW, now()),
        ..service()
    };
    for managed in [failed, rolled_back] {
        assert!(matches!(
            decide(&managed, &asked(NEW, Intent::Upgrade)),
            Decision::Rest(_)
        ));
        for intent in [
            Intent::Retry(Request::default()),
            Intent::Rollback(Request::default()),
        ] {
            assert!(matches!(step(&managed, &asked(NEW, intent)), Step::Begin { .. }));
        }
    }
}

/// Another process has recorded its attempt, and is about to change the image.
#[test]
fn reconfigure_never_overwrites_a_noted_attempt() {
    let settings = Intent::Reconfigure(Request::default(), Arc::default());
    let noted = back(settled(), false);
    assert!(matches!(
        step(&service(), &asked(OLD, settings.clone())),
        Step::Begin { .. }
    ));
    let decision = decide(&noted, &asked(OLD, settings));
    assert!(
        matches!(&decision, Decision::Rest(Reason::UpdatedElsewhere { .. })),
        "{decision:?}"
    );
}

#[test]
fn only_a_rollback_records_the_image_that_it_left() {
    let managed = Managed {
        image: ImageName::from(NEW),
        ..service()
    };
    let record = managed.begin(OLD, &Intent::Rollback(Request::default()), now());
    assert_eq!(record.rolled_back_from.as_deref(), Some(NEW));
    let again = service().begin(NEW, &Intent::Upgrade, now());
    assert_eq!(again.rolled_back_from, None);
}

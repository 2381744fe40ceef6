//! The JSON schemas of `docs/reference` describe each field. A new field of these types does not compile here until it has
//! a value, and the test fails until the schema describes it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use delegate_upgrader::engine::EngineCalls;
use delegate_upgrader::events::audit::Unwritten;
use delegate_upgrader::events::history::{History, Release};
use delegate_upgrader::events::tally::Tally;
use delegate_upgrader::events::webhook::WebhookCounts;
use delegate_upgrader::events::{Action, Actor, DeadManCounts, Event, EventId, Seconds};
use delegate_upgrader::health::{HealthStatus, Probe};
use delegate_upgrader::host::hold::Paused;
use delegate_upgrader::image::{CountedFrom, Expiry};
use delegate_upgrader::manager::{ManagerRequests, ManagerStatus, UpgraderImage};

use delegate_upgrader::container::{OWN_WORKLOAD, Request};
use delegate_upgrader::rollout::reason::{Reason, ReasonKind};
use delegate_upgrader::rollout::{Blocker, BlockerKind, PullState, RejectedImage};
use delegate_upgrader::schedule::zone::Zone;
use delegate_upgrader::status::evidence::Evidence;
use delegate_upgrader::status::next_upgrade::NextUpgrade;
use delegate_upgrader::status::planned::Planned;
use delegate_upgrader::status::report::{DelegateReport, Drain, Report};
use delegate_upgrader::status::{Mode, Status};
use serde_json::{Value, json};
use strum::VariantArray as _;

fn at() -> DateTime<Utc> {
    "2026-11-21T05:18:14.5Z".parse().unwrap()
}

fn blocker() -> Blocker {
    Blocker {
        reason: Reason::NoContainer,
        kind: BlockerKind::Time,
        until: Some(at()),
    }
}

fn delegate() -> DelegateReport {
    DelegateReport {
        container: "delegate-1".to_owned(),
        workload: "docker-delegate".to_owned(),
        container_id: "0123456789ab".to_owned(),
        image: "harness/delegate:26.02.1".to_owned(),
        release: 2,
        last_successful_release: 1,
        previous_image: Some("harness/delegate:26.01.1".to_owned()),
        expiry: Some(Expiry {
            support_ends: "2026-08-31".parse().unwrap(),
            life_ends: "2026-10-31".parse().unwrap(),
            counted_from: CountedFrom::Image,
        }),
        health: HealthStatus::Healthy,
        health_probe: Probe::Http,
        health_detail: "answers 200".to_owned(),
        health_since: Some(at()),
        tasks: Some(2),
        connected: Some(true),
        draining: vec![Drain {
            container: "delegate-1.draining-1".to_owned(),
            tasks: Some(1),
            since: Some(at()),
            until: Some(at()),
        }],
        rejected_images: vec![RejectedImage {
            image: "harness/delegate:26.03.1".to_owned(),
            cause: "rejected",
            at: at(),
        }],
        reason: ReasonKind::Rejected,
        cause: Some("crash_loop"),
        message: "a sentence".to_owned(),
        next_step: Some("a sentence".to_owned()),
        blockers: vec![blocker()],
        pull: Some(PullState {
            image: "harness/delegate:26.03.1".to_owned(),
            current: 1,
            total: 3,
            rate: 1,
            eta: Some(2),
        }),
        in_progress: true,
        failed: true,
        deadline: Some(at()),
        until: Some(at()),
        next_check: Some(at()),
        evidence: Some(Evidence {
            container: "delegate-1.failed-1".to_owned(),
            image: "harness/delegate:26.03.1".to_owned(),
            message: Some("exited with code 3".to_owned()),
            time: at(),
            ending: Some("exited with code 3".to_owned()),
            log_tail: vec!["one".to_owned()],
            health_log: vec!["exit code 1: ill".to_owned()],
        }),
    }
}

/// An event with every field.
fn event() -> Event {
    Event {
        id: EventId::of(Action::Skipped, &["delegate-1"]),
        time: at(),
        host: "build-7".to_owned(),
        version: "0.1.0".to_owned(),
        actor: Actor::Operator,
        request: Some(Request::new(Some("ada"), Some("a fix"))),
        action: Action::Skipped,
        workload: "docker-delegate".to_owned(),
        container: "delegate-1".to_owned(),
        container_id: Some("f00".to_owned()),
        from: Some("harness/delegate:26.02.1".to_owned()),
        to: Some("harness/delegate:26.03.1".to_owned()),
        image_id: Some("sha256:1".to_owned()),
        previous_image_id: Some("sha256:0".to_owned()),
        reason: Some("pull_failed".to_owned()),
        message: "a sentence".to_owned(),
        seconds: Seconds {
            pull: Some(1.5),
            proof: Some(2.0),
            drain: Some(3.0),
            downtime: Some(0.0),
        },
        release: Some(1),
        previous_release: Some(0),
        tasks_cut_short: Some(2),
        resolved: true,
    }
}

#[test]
fn the_schema_of_events_describes_each_field_and_action() {
    let mut events: Vec<Value> = Action::VARIANTS
        .iter()
        .map(|action| {
            serde_json::to_value(Event {
                action: *action,
                ..event()
            })
            .unwrap()
        })
        .collect();
    let least = Event {
        actor: Actor::System,
        request: None,
        container_id: None,
        from: None,
        to: None,
        image_id: None,
        previous_image_id: None,
        reason: None,
        seconds: Seconds::default(),
        release: None,
        previous_release: None,
        tasks_cut_short: None,
        resolved: false,
        ..event()
    };
    let least = serde_json::to_value(least).unwrap();
    let names: Vec<&String> = least.as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 9, "what does not apply is absent: {names:?}");
    events.push(least);
    kit::schema::describes("event", &events);
}

#[test]
fn the_schema_of_status_describes_each_field() {
    let full = Status {
        all_well: true,
        version: "0.1.0",
        host: "build-7".to_owned(),
        started_at: at(),
        mode: Mode::HealthOnly,
        schedule: "@hourly".to_owned(),
        pauses: vec![Paused {
            since: at(),
            until: Some(at()),
            delegate: Some("delegate-1".to_owned()),
            request: Request::new(Some("ada"), Some("a freeze")),
            record: String::new(),
        }],
        timing: vec!["UPGRADE_DELAY=3d".to_owned()],
        zone: Zone::utc(),
        next_run: Some(at()),
        next_upgrade: Some(NextUpgrade {
            at: Some(at()),
            reason: ReasonKind::OutsideWindow,
            text: "Mon 02:00 Europe/Berlin (window)".to_owned(),
        }),
        last_run: Some(at()),
        last_success: Some(at()),
        success_due: Some(at()),
        manager: Some(ManagerStatus {
            answered_at: Some(at()),
            problem: Some("the token was revoked".to_owned()),
            published: BTreeMap::from([(
                "docker-delegate".to_owned(),
                "harness/delegate:26.03.1".to_owned(),
            )]),
        }),
        upgrader_image: Some(UpgraderImage {
            image: "harness/upgrader:1.0.0".to_owned(),
            published: "harness/upgrader:1.1.0".to_owned(),
            newer_version_available: true,
        }),
        engine_error: Some("connection refused".to_owned()),
        report: Some(Report {
            observed_at: at(),
            delegates: vec![delegate(), gone("delegate-2", "docker-delegate")],
            not_delegates: vec![gone("sidecar", "docker-delegate")],
            none_found: Some("a sentence".to_owned()),
            upgrader: Some(Box::new(gone("delegate-upgrader", OWN_WORKLOAD))),
            next_check: Some(at()),
        }),
        tally: Tally {
            steps: BTreeMap::from([("pull", 1)]),
            outcomes: BTreeMap::from([("upgraded", 1)]),
            events: vec![event()],
            durations: Vec::new(),
        },
        audit_log: Some(Unwritten {
            waiting: 1,
            lost: 2,
            problem: Some("No space left on device".to_owned()),
        }),
        webhook: Some(WebhookCounts {
            delivered: 1,
            failed_attempts: 2,
            given_up: 3,
            dropped: 4,
            queued: 5,
            last_error: Some("answers 500".to_owned()),
            failing_since: Some(at()),
        }),
        dead_man: Some(DeadManCounts {
            succeeded: 1,
            failed: 2,
            last_error: Some("answers 500".to_owned()),
            failing_since: Some(at()),
        }),
        delivery_problems: vec!["a sentence".to_owned()],
        log_lines_dropped: 1,
        config_hash: (1 << 48) - 1,
        engine_calls: EngineCalls::default(),
        manager_requests: ManagerRequests::default(),
    };
    let empty = Status::new(Mode::Upgrade, "@hourly", at());
    let values = [full, empty].map(|status| serde_json::to_value(status).unwrap());
    kit::schema::describes("status", &values);
}

#[test]
fn the_schema_of_history_describes_each_field() {
    let outcomes = [
        "original",
        "upgraded",
        "rolled_back",
        "rejected",
        "withdrawn",
        "restored",
    ];
    let release = |outcome: &'static str| Release {
        release: 1,
        image: "harness/delegate:26.03.1".to_owned(),
        image_id: Some("sha256:1".to_owned()),
        time: Some(at()),
        outcome,
        is_serving: true,
        is_available: Some(true),
        message: "a sentence".to_owned(),
    };
    let history = History {
        container: "delegate-1".to_owned(),
        workload: "docker-delegate".to_owned(),
        releases: outcomes.map(release).into(),
        events: vec![event()],
    };
    kit::schema::describes("history", &[serde_json::to_value([history]).unwrap(), json!([])]);
}

fn gone(container: &str, workload: &str) -> DelegateReport {
    DelegateReport::without_container(container, workload, &Reason::NoContainer)
}

#[test]
fn the_schema_of_plan_describes_each_field() {
    let planned = |action: &'static str| Planned {
        container: "delegate-1".to_owned(),
        workload: "docker-delegate".to_owned(),
        image: "harness/delegate:26.02.1".to_owned(),
        health: HealthStatus::Starting,
        action,
        message: "a sentence".to_owned(),
        update_order: (action == "replace").then(|| "start-first".to_owned()),
        reason: (action == "leave").then_some(ReasonKind::Obstacle),
        until: (action == "leave").then(at),
        cause: (action == "leave").then_some("managed"),
        blockers: (action == "leave").then(blocker).into_iter().collect(),
        failed: action == "leave",
        warnings: (action == "replace")
            .then(|| "a sentence".to_owned())
            .into_iter()
            .collect(),
    };
    let plan = ["replace", "restart", "continue", "leave"].map(planned);
    kit::schema::describes("plan", &[serde_json::to_value(plan).unwrap(), json!([])]);
}

#[test]
fn schema_rejects_undescribed_fields() {
    let wrong: Value = json!([{ "severity": "fatal", "subject": 1, "message": "m", "new": true }]);
    let found = std::panic::catch_unwind(|| kit::schema::describes("doctor", &[wrong]));
    let found = found.unwrap_err().downcast::<String>().unwrap();
    for problem in [
        "[0].severity: enum",
        "[0].subject: type",
        "[0].new: not in the schema",
    ] {
        assert!(found.contains(problem), "{problem}: {found}");
    }
}

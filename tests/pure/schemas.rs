//! The JSON schemas of `docs/reference` describe each field. A new field of these types does not compile here until it has
//! a value, and has no description until the schema gets one.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use delegate_upgrader::engine::EngineCalls;
use delegate_upgrader::health::{HealthStatus, Probe};
use delegate_upgrader::image::Expiry;
use delegate_upgrader::manager::{ManagerRequests, ManagerStatus};

use delegate_upgrader::rollout::PullState;
use delegate_upgrader::rollout::reason::ReasonKind;
use delegate_upgrader::status::evidence::Evidence;
use delegate_upgrader::status::report::{DelegateReport, Drain, Planned, Report};
use delegate_upgrader::status::{Mode, Status};
use serde_json::{Value, json};

fn at() -> DateTime<Utc> {
    "2026-11-21T05:18:14.5Z".parse().unwrap()
}

fn delegate() -> DelegateReport {
    DelegateReport {
        container: "delegate-1".to_owned(),
        workload: "docker-delegate".to_owned(),
        container_id: "0123456789ab".to_owned(),
        image: "harness/delegate:26.02.1".to_owned(),
        release: 2,
        previous_image: Some("harness/delegate:26.01.1".to_owned()),
        expiry: Some(Expiry {
            support_ends: "2026-08-31".parse().unwrap(),
            life_ends: "2026-10-31".parse().unwrap(),
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
        reason: ReasonKind::Rejected,
        cause: Some("crash_loop".into()),
        message: "a sentence".to_owned(),
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

#[test]
fn the_schema_of_status_describes_each_field() {
    let full = Status {
        version: "0.1.0".into(),
        started_at: at(),
        mode: Mode::HealthOnly,
        schedule: "@hourly".to_owned(),
        next_run: Some(at()),
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
        engine_error: Some("connection refused".to_owned()),
        report: Some(Report {
            observed_at: at(),
            delegates: vec![delegate(), DelegateReport::gone("delegate-2", "docker-delegate")],
            next_check: Some(at()),
        }),
        steps: BTreeMap::from([("pull".into(), 1)]),
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
        cause: (action == "leave").then_some("managed"),
        failed: action == "leave",
    };
    let plan = ["replace", "continue", "leave"].map(planned);
    kit::schema::describes("plan", &[serde_json::to_value(plan).unwrap(), json!([])]);
}

#[test]
fn a_schema_finds_what_it_does_not_describe() {
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

//! `docs/reference/metrics.md`: every metric under its Prometheus name, and the values of its labels.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use delegate_upgrader::engine::API_CALLS;
use delegate_upgrader::engine::EngineError;
use delegate_upgrader::events::Action;
use delegate_upgrader::health::Probe;
use delegate_upgrader::rollout::Step;
use delegate_upgrader::status::metrics;
use kit::page;
use strum::{VariantArray as _, VariantNames as _};

use super::as_code;
use crate::status::with_every_metric;

const PAGE: &str = "docs/reference/metrics.md";

/// The documentation's text about each metric. The names omit the common prefix.
#[rustfmt::skip]
const WORDS: &[(&str, &str)] = &[
    ("build_info", "1"),
    ("config_hash", "the same number on hosts where `config` prints the same; of a secret it knows only whether it is set"),
    ("newer_version_available", "1 if a newer version of the upgrader is published, or `SELF_UPGRADE` names another image than its own; missing if neither is known, or if the two images have no versions of one repository"),
    ("start_timestamp_seconds", "Unix time of the program's start"),
    ("engine_up", "1 if the engine answered at the last observation"),
    ("delegate_healthy", "1 if healthy; `probe` says by what"),
    ("delegate_reason", "1 for the current [reason](reasons.md); `cause` where the reason has [several kinds](causes.md)"),
    ("delegate_support_ends_timestamp_seconds", "Unix time at which Harness's support of its version ends: six months after its release, or after the month in its tag"),
    ("image_rejected_timestamp_seconds", "Unix time at which it rejected that image, through no fault of its host, or an operator rolled it back"),
    ("delegate_tasks", "tasks that the delegate executes, if it [reports them](../usage/replacement.md#tasks)"),
    ("delegate_drain_tasks", "tasks left in its containers that are stopping, if they report them"),
    ("delegate_drain_remaining_seconds", "time left for the last of these containers"),
    ("delegates_failed", "delegates that could not be served"),
    ("last_observation_timestamp_seconds", "Unix time of the last observation"),
    ("next_run_timestamp_seconds", "Unix time of the next scheduled run"),
    ("next_upgrade_timestamp_seconds", "Unix time at which the next upgrade can start; 0 if there is none, or if what keeps it does not end by itself"),
    ("last_success_timestamp_seconds", "Unix time of the last successful scheduled run: it found delegates, none failed or waits for an answer, and each new container is proven. 0 until the first success since the start"),
    ("success_due_timestamp_seconds", "Unix time by which a scheduled run should have succeeded: the time of the second run after the last success, or after the start"),
    ("manager_last_response_timestamp_seconds", "Unix time of the Manager's last answer, for the delegate that has waited longest; after 90 minutes without an answer the UI shows AUTO UPGRADE OFF. Only if there is a Manager"),
    ("manager_requests_total", "requests to the Manager since the start, each attempt by itself"),
    ("engine_requests_total", "calls to the engine since the start. The results `not_found`, `conflict` and `refused` are often as expected"),
    ("engine_request_duration_seconds", "how long the engine took for a call"),
    ("steps_total", "steps tried since the start"),
    ("outcomes_total", "outcomes since the start, by [action](events.md#actions)"),
    ("pull_seconds", "how long pulls took, if an outcome followed"),
    ("proof_seconds", "from a candidate's start until it was proven"),
    ("drain_seconds", "from the request to stop an old container until it has stopped"),
    ("downtime_seconds", "stop-first: how long no container took tasks"),
    ("audit_records_missing", "outcomes that could not be written to [the audit log](../usage/audit-log.md)"),
    ("webhook_deliveries_total", "[events](../usage/notifications.md) that were `delivered`, `given_up` or `dropped`, and attempts that `failed`, since the start. Only with `WEBHOOK_URL`"),
    ("webhook_queue_length", "events that wait for the receiver. Only with `WEBHOOK_URL`"),
    ("deadman_requests_total", "requests to `DEADMAN_URL` since the start. Only with `DEADMAN_URL`"),
    ("log_lines_dropped_total", "log lines dropped since the start, because nobody read standard output"),
];

const PREFIX: &str = "delegate_upgrader_";

/// The labels of a metric's series, without those of the histogram's buckets.
fn labels(exposed: &str, name: &str) -> Vec<String> {
    let series = exposed.lines().filter(|line| !line.starts_with('#'));
    let labels = series.filter_map(|line| {
        let (found, rest) = line.split_once('{')?;
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| found.strip_suffix(end));
        (found == name || base == Some(name)).then(|| rest.split_once('}').unwrap().0)
    });
    let mut names = Vec::new();
    for pair in labels.flat_map(|labels| labels.split("\",")) {
        let label = pair.split('=').next().unwrap();
        if label != "le" && !names.iter().any(|name| name == label) {
            names.push(label.to_owned());
        }
    }
    names
}

#[test]
fn the_page_has_every_metric() {
    let mut status = with_every_metric();
    let exposed = metrics::text(&status);
    // The label `cause` appears if a reason has one.
    for delegate in &mut status.report.as_mut().unwrap().delegates {
        delegate.cause = Some("crash_loop");
    }
    let with_causes = metrics::text(&status);
    let types = exposed.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let types: Vec<(&str, &str)> = types.map(|line| line.split_once(' ').unwrap()).collect();
    let described: BTreeSet<String> = WORDS.iter().map(|(name, _)| format!("{PREFIX}{name}")).collect();
    let exported: BTreeSet<String> = types.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(described, exported);
    assert_eq!(described.len(), WORDS.len());
    let mut table = String::from("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for (name, words) in WORDS {
        let name = format!("{PREFIX}{name}");
        let (_, kind) = types.iter().find(|(found, _)| *found == name).unwrap();
        let labels = labels(&with_causes, &name);
        let labels = as_code(labels.iter().map(String::as_str));
        let _ = writeln!(table, "| `{name}` | {kind} | {labels} | {words} |");
    }
    page::has(PAGE, "metrics", &table);
}

#[test]
fn the_page_has_the_values_of_the_labels() {
    let mut operations: Vec<&str> = Vec::new();
    for call in API_CALLS {
        if !operations.contains(&call.operation) {
            operations.push(call.operation);
        }
    }
    let actions = Action::VARIANTS
        .iter()
        .filter(|action| **action != Action::Test)
        .map(|action| action.as_str());
    let steps = as_code(Step::VARIANTS.iter().copied());
    let results = as_code(EngineError::VARIANTS.iter().copied());
    let (operations, probes) = (as_code(operations), as_code(Probe::VARIANTS.iter().copied()));
    let actions = as_code(actions);
    let table = format!(
        "\
| label | of | values |
|---|---|---|
| `container`, `workload` | all of a delegate | the container's name, and its `DELEGATE_NAME` |
| `image` | `delegate_healthy`, `image_rejected_timestamp_seconds` | the image's reference |
| `cause` | `image_rejected_timestamp_seconds` | `rejected`, `rolled_back` |
| `probe` | `delegate_healthy` | {probes} |
| `reason`, `cause` | `delegate_reason` | [the reasons](reasons.md) and [their causes](causes.md) |
| `operation` | `engine_requests_total`, `engine_request_duration_seconds` | {operations} |
| `result` | `engine_requests_total` | `ok`, {results} |
| `result` | `manager_requests_total` | `ok`, or [a cause](causes.md) of `target_unknown` |
| `result` | `webhook_deliveries_total` | `delivered`, `failed`, `given_up`, `dropped` |
| `result` | `deadman_requests_total` | `succeeded`, `failed` |
| `step` | `steps_total` | {steps} |
| `action` | `outcomes_total` | {actions} |
| `version` | `build_info` | the version of the program |
"
    );
    page::has(PAGE, "labels", &table);
}

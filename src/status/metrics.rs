//! The state as Prometheus text. It is built for each scrape, so the series of a removed delegate disappear.

use std::fmt::{Display, Write as _};

use chrono::{DateTime, NaiveTime, Utc};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::health::HealthStatus;
use crate::manager::heartbeat::ManagerStatus;
use crate::status::Status;
use crate::status::report::DelegateReport;
use crate::text::Foreign;

/// The labels of a series: names and values.
type Labels = Vec<(&'static str, String)>;
/// A series of numbers for each set of labels.
type Gauges = Family<Labels, Gauge>;

/// The text for a scraper.
pub fn text(status: &Status) -> String {
    let registry = &mut Registry::with_prefix("delegate_upgrader");

    let build = Gauges::default();
    build
        .get_or_create(&vec![("version", status.version.to_string())])
        .set(1);
    registry.register("build_info", "The version that runs", build);
    let help = "The same number where `config` prints the same settings";
    register(registry, "config_hash", help, status.config_hash);
    if let Some(upgrader) = &status.upgrader_image {
        let help = "Whether a newer version of the upgrader is published, where the two can be compared";
        let is_newer = upgrader.newer_version_available;
        register(registry, "newer_version_available", help, is_newer.into());
    }
    let help = "Whether the engine answered at the last observation";
    let is_up = status.not_ready().is_none();
    register(registry, "engine_up", help, is_up.into());

    let delegates = status.report.iter().flat_map(|report| &report.delegates);
    register_delegates(registry, delegates.clone());
    let failed = delegates.filter(|delegate| delegate.failed).count() as u64;
    let help = "Delegates that could not be served";
    register(registry, "delegates_failed", help, failed);

    let observed = status.report.as_ref().map(|report| report.observed_at);
    let upgrade = status.next_upgrade.as_ref().and_then(|next| next.at);
    let help = "When the program started";
    register_time(registry, "start", help, Some(status.started_at));
    let help = "When the engine was last observed";
    register_time(registry, "last_observation", help, observed);
    let help = "When the next scheduled run starts";
    register_time(registry, "next_run", help, status.next_run);
    let help = "When the next upgrade can start, if what keeps it ends by itself";
    register_time(registry, "next_upgrade", help, upgrade);
    let help = "When a scheduled run succeeded last";
    register_time(registry, "last_success", help, status.last_success);
    // A schedule may have no further run.
    if status.success_due.is_some() {
        let help = "By when the next scheduled run should have succeeded: the second one after the last success, or after the start";
        register_time(registry, "success_due", help, status.success_due);
    }
    // The Manager's answer cannot be late before the first request.
    let was_asked = |manager: &&ManagerStatus| manager.answered_at.is_some() || manager.problem.is_some();
    if let Some(manager) = status.manager.as_ref().filter(was_asked) {
        let help = "When the Manager last answered for the delegate that has waited longest; after 90 minutes without an answer its UI shows AUTO UPGRADE OFF";
        register_time(registry, "manager_last_response", help, manager.answered_at);
    }

    status.manager_requests.register(registry);
    status.engine_calls.register(registry);

    let steps = counters("step", &status.tally.steps);
    registry.register("steps", "Steps tried since the start", steps);

    let outcomes = counters("action", &status.tally.outcomes);
    registry.register("outcomes", "Outcomes since the start, by action", outcomes);
    for (part, histogram) in &status.tally.durations {
        let help = format!("How long the {part} of a replacement took");
        registry.register_with_unit(*part, help, Unit::Seconds, histogram.clone());
    }
    let unwritten = status
        .audit_log
        .as_ref()
        .map_or(0, |audit| audit.waiting as u64 + audit.lost);
    let help = "Outcomes that could not be written to the audit log";
    register(registry, "audit_records_missing", help, unwritten);
    register_notifications(registry, status);

    let dropped = Counter::<u64>::default();
    dropped.inc_by(status.log_lines_dropped);
    registry.register(
        "log_lines_dropped",
        "Log lines dropped since the start, because nobody read standard output",
        dropped,
    );

    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, registry);
    as_prometheus(&text)
}

/// Converts OpenMetrics to the older Prometheus format, which every scraper reads. In that format, the metadata of a
/// counter use the name of its samples, and units and the end marker do not exist.
fn as_prometheus(open_metrics: &str) -> String {
    let counters: Vec<&str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
            (Some("#"), Some(kind), Some(name), Some(rest)) if counters.contains(&name) => {
                let _ = write!(text, "# {kind} {name}_total {rest}");
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// Registers the series of each delegate.
fn register_delegates<'a>(registry: &mut Registry, delegates: impl Iterator<Item = &'a DelegateReport>) {
    let help = "Whether the delegate is healthy, and which probe says so";
    let healthy = gauges(registry, "delegate_healthy", None, help);
    let help = "Why nothing more happens to the delegate now";
    let reasons = gauges(registry, "delegate_reason", None, help);
    let seconds = Some(Unit::Seconds);
    let help = "When the support of the delegate's version ends, or about when, by its tag";
    let support = gauges(registry, "delegate_support_ends_timestamp", seconds.clone(), help);
    let help = "When the delegate last rejected the image, or an operator rolled it back";
    let rejected = gauges(registry, "image_rejected_timestamp", seconds.clone(), help);
    let help = "Tasks that the delegate executes, if it says so";
    let tasks = gauges(registry, "delegate_tasks", None, help);
    let help = "Tasks left to the delegate's containers that are to stop, if they say so";
    let left = gauges(registry, "delegate_drain_tasks", None, help);
    let help = "Time left to the last of the delegate's containers that are to stop";
    let time_left = gauges(registry, "delegate_drain_remaining", seconds, help);
    let now = Utc::now();
    for delegate in delegates {
        let series = |gauges: &Gauges, more: &[(&'static str, &str)]| {
            let own = [
                ("container", &*delegate.container),
                ("workload", &*delegate.workload),
            ];
            let labels = own.iter().chain(more).map(|(name, value)| (*name, label(value)));
            gauges.get_or_create_owned(&labels.collect())
        };
        let probe = [
            ("image", &*delegate.image),
            ("probe", delegate.health_probe.as_str()),
        ];
        series(&healthy, &probe).set((delegate.health == HealthStatus::Healthy).into());
        let reason = ("reason", delegate.reason.as_str());
        let cause = delegate.cause.map(|cause| ("cause", cause));
        let both: Vec<_> = [reason].into_iter().chain(cause).collect();
        series(&reasons, &both).set(1);
        for found in &delegate.rejected_images {
            let image = [("image", &*found.image), ("cause", found.cause)];
            let series = series(&rejected, &image);
            series.set(series.get().max(found.at.timestamp()));
        }
        if let Some(expiry) = &delegate.expiry {
            // Support lasts until the end of that day.
            let end = expiry.support_ends.succ_opt().unwrap_or(expiry.support_ends);
            series(&support, &[]).set(end.and_time(NaiveTime::MIN).and_utc().timestamp());
        }
        if let Some(count) = delegate.tasks {
            series(&tasks, &[]).set(whole(count));
        }
        let counts = delegate.draining.iter().filter_map(|drain| drain.tasks);
        if let Some(count) = counts.reduce(u64::saturating_add) {
            series(&left, &[]).set(whole(count));
        }
        if let Some(until) = delegate.draining.iter().filter_map(|drain| drain.until).max() {
            series(&time_left, &[]).set((until - now).num_seconds().max(0));
        }
    }
}

/// Registers the counts of deliveries to the webhook and of requests to `DEADMAN_URL`, if these are set.
fn register_notifications(registry: &mut Registry, status: &Status) {
    let results =
        |counts: &[(&str, u64)]| counters("result", counts.iter().map(|(word, count)| (word, count)));
    if let Some(webhook) = &status.webhook {
        registry.register(
            "webhook_deliveries",
            "Events that were delivered, given up or dropped, and attempts that failed, since the start",
            results(&[
                ("delivered", webhook.delivered),
                ("failed", webhook.failed_attempts),
                ("given_up", webhook.given_up),
                ("dropped", webhook.dropped),
            ]),
        );
        let help = "Events that wait for the webhook's receiver";
        register(registry, "webhook_queue_length", help, webhook.queued);
    }
    if let Some(dead_man) = &status.dead_man {
        registry.register(
            "deadman_requests",
            "Requests to DEADMAN_URL since the start",
            results(&[("succeeded", dead_man.succeeded), ("failed", dead_man.failed)]),
        );
    }
}

/// Makes one series for each word, with the word as the value of `label`.
fn counters<'a, W: Display + 'a>(
    label: &'static str,
    counts: impl IntoIterator<Item = (&'a W, &'a u64)>,
) -> Family<Labels, Counter> {
    let family = Family::<Labels, Counter>::default();
    for (word, count) in counts {
        let labels = vec![(label, word.to_string())];
        family.get_or_create(&labels).inc_by(*count);
    }
    family
}

fn gauges(registry: &mut Registry, name: &str, unit: Option<Unit>, help: &str) -> Gauges {
    let gauges = Gauges::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, gauges.clone()),
        None => registry.register(name, help, gauges.clone()),
    }
    gauges
}

fn register(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Gauge::<i64>::default();
    gauge.set(whole(value));
    registry.register(name, help, gauge);
}

/// Registers a time as Unix time, or as 0 if there is none yet.
fn register_time(registry: &mut Registry, name: &str, help: &str, time: Option<DateTime<Utc>>) {
    let gauge = Gauge::<i64>::default();
    gauge.set(time.map_or(0, |time| time.timestamp()));
    registry.register_with_unit(format!("{name}_timestamp"), help, Unit::Seconds, gauge);
}

/// The value of a label, in which a quote or a backslash follows another backslash.
fn label(value: &str) -> String {
    let value = Foreign(value).to_string();
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

/// The number as a gauge has it.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

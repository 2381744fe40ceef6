//! The state as OpenMetrics text. Built anew at each scrape, so that a delegate that is gone leaves no series behind.

use chrono::NaiveTime;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::manager::heartbeat::ManagerStatus;
use crate::status::Status;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HealthLabels {
    name: String,
    delegate: String,
    image: String,
    by: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    name: String,
    delegate: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ExpiryLabels {
    name: String,
    delegate: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
}

/// The text a scraper reads.
pub fn text(status: &Status) -> String {
    let mut registry = Registry::with_prefix("delegate_upgrader");

    let build = Family::<BuildLabels, Gauge>::default();
    build
        .get_or_create(&BuildLabels {
            version: status.version,
        })
        .set(1);
    registry.register("build_info", "The version that runs", build);

    let engine = Gauge::<i64>::default();
    engine.set(i64::from(status.not_ready().is_none()));
    registry.register(
        "engine_up",
        "Whether the engine could be looked at the last time",
        engine,
    );

    let healthy = Family::<HealthLabels, Gauge>::default();
    let reasons = Family::<ReasonLabels, Gauge>::default();
    let support = Family::<ExpiryLabels, Gauge>::default();
    let failed = Gauge::<i64>::default();
    let last_look = Gauge::<i64>::default();
    if let Some(report) = &status.report {
        last_look.set(report.at.timestamp());
        for delegate in &report.delegates {
            let (name, group) = (&delegate.name, &delegate.delegate);
            let labels = HealthLabels {
                name: name.clone(),
                delegate: group.clone(),
                image: delegate.image.clone(),
                by: delegate.health_by,
            };
            healthy
                .get_or_create(&labels)
                .set(i64::from(delegate.health == "healthy"));
            let labels = ReasonLabels {
                name: name.clone(),
                delegate: group.clone(),
                reason: delegate.reason,
            };
            reasons.get_or_create(&labels).set(1);
            if let Some(expiry) = &delegate.expiry {
                let labels = ExpiryLabels {
                    name: name.clone(),
                    delegate: group.clone(),
                };
                // The day counts to its end.
                let end = expiry.support_ends.succ_opt().unwrap_or(expiry.support_ends);
                support
                    .get_or_create(&labels)
                    .set(end.and_time(NaiveTime::MIN).and_utc().timestamp());
            }
            failed.inc_by(i64::from(delegate.failed));
        }
    }
    registry.register(
        "delegate_healthy",
        "Whether the delegate is healthy, and which probe says so",
        healthy,
    );
    registry.register(
        "delegate_reason",
        "Why nothing more happens to the delegate now",
        reasons,
    );
    registry.register_with_unit(
        "delegate_support_ends_time",
        "When the support of the delegate's version ends, by its tag",
        Unit::Seconds,
        support,
    );
    registry.register(
        "delegates_not_served",
        "Delegates that could not be served",
        failed,
    );
    registry.register_with_unit(
        "last_look_time",
        "When the engine was last looked at",
        Unit::Seconds,
        last_look,
    );

    let next_run = Gauge::<i64>::default();
    next_run.set(status.next_run.map_or(0, |next| next.timestamp()));
    registry.register_with_unit(
        "next_run_time",
        "When the next scheduled pass begins",
        Unit::Seconds,
        next_run,
    );

    // Before it was asked there is nothing to be late with.
    let asked = |manager: &&ManagerStatus| manager.answered_at.is_some() || manager.problem.is_some();
    if let Some(manager) = status.manager.as_ref().filter(asked) {
        let answered = Gauge::<i64>::default();
        answered.set(manager.answered_at.map_or(0, |at| at.timestamp()));
        registry.register_with_unit(
            "manager_answered_time",
            "When the Manager last answered for the delegate that has waited longest; after 90 minutes without, its UI shows auto upgrade as off",
            Unit::Seconds,
            answered,
        );
    }

    let steps = Family::<StepLabels, Counter>::default();
    for (step, count) in &status.steps {
        steps.get_or_create(&StepLabels { step }).inc_by(*count);
    }
    registry.register("steps", "Steps taken since the start", steps);

    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

//! Prometheus: whether it answers, and which alerts of `HOLD_ON_ALERTS` fire.

use super::Checks;
use crate::alerts::{Alert, Firing};

/// Reports the answer of Prometheus, if it was asked.
pub(crate) fn check(firing: Option<&Firing>, checks: &mut Checks) {
    let alerts = match firing {
        None => return,
        Some(Err(unanswered)) => {
            checks.fail("prometheus", format!("HOLD_ON_ALERTS: {}", unanswered.problem));
            return;
        }
        Some(Ok(alerts)) => alerts,
    };
    let (idle, holding): (Vec<&Alert>, Vec<&Alert>) =
        alerts.iter().partition(|alert| alert.is_ended_by_upgrade);
    if holding.is_empty() {
        checks.ok("prometheus", "it answers, and no alert holds upgrades back");
    } else {
        let holding: Vec<String> = holding.into_iter().map(ToString::to_string).collect();
        checks.warn(
            "prometheus",
            format!("these alerts hold upgrades back: {}", holding.join(", ")),
        );
    }
    if !idle.is_empty() {
        let idle: Vec<&str> = idle.into_iter().map(|alert| alert.name.as_str()).collect();
        let message = format!(
            "HOLD_ON_ALERTS also matches {}, which hold nothing back, since an upgrade ends them",
            idle.join(", ")
        );
        checks.warn("prometheus", message);
    }
}

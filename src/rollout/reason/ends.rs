//! When a reason ends by itself.

use chrono::{DateTime, Utc};

use super::{Reason, Retry};

impl Reason {
    /// When it is over at the latest, where tasks are waited for.
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::WaitingForIdle { until, .. }
            | Self::Draining { until, .. }
            | Self::NobodyServes { until, .. }
            | Self::Restarting { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// When it ends by itself, if that is known.
    pub fn ends_at(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Paused { until, .. } => *until,
            Self::Snoozed { until, .. }
            | Self::Delayed { until, .. }
            | Self::AwaitingWave { until, .. }
            | Self::OutsideWindow { until, .. }
            | Self::Quarantined { until, .. }
            | Self::RestartBackoff { until, .. } => Some(*until),
            Self::TargetUnknown { retry, .. }
            | Self::DigestUnknown { retry, .. }
            | Self::PullFailed { retry, .. } => match retry {
                Retry::At(at) => Some(*at),
                _ => None,
            },
            reason => reason.deadline(),
        }
    }
}

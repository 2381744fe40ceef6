//! When a reason ends by itself, and which failures a run tries again.

use chrono::{DateTime, Utc};

use super::{Reason, Retry};
use crate::manager::ManagerError;

impl Reason {
    /// The Manager did not say which image is published.
    pub(crate) fn target_unknown(error: &ManagerError) -> Self {
        let (error, retry) = (error.clone(), error.retry());
        Self::TargetUnknown { error, retry }
    }

    /// The latest end of a wait for tasks.
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::WaitingForIdle { until, .. }
            | Self::Draining { until, .. }
            | Self::NobodyServes { until, .. }
            | Self::Restarting { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// When it ends by itself, if known.
    pub fn ends_at(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Paused { until, .. } | Self::Soaking { until, .. } | Self::AlertsUnknown { until, .. } => {
                *until
            }
            Self::Snoozed { until, .. }
            | Self::Delayed { until, .. }
            | Self::AwaitingWave { until, .. }
            | Self::OutsideWindow { until, .. }
            | Self::Quarantined { until, .. }
            | Self::RestartBackoff { until, .. } => Some(*until),
            reason => reason.retried_at().or_else(|| reason.deadline()),
        }
    }

    /// When the failed question or pull is tried again before the next run.
    pub(crate) fn retried_at(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::TargetUnknown {
                retry: Retry::At(at), ..
            }
            | Self::DigestUnknown {
                retry: Retry::At(at), ..
            }
            | Self::PullFailed {
                retry: Retry::At(at), ..
            } => Some(*at),
            _ => None,
        }
    }

    /// The retry of a failed question or pull.
    pub(crate) fn retry_mut(&mut self) -> Option<&mut Retry> {
        match self {
            Self::TargetUnknown { retry, .. }
            | Self::DigestUnknown { retry, .. }
            | Self::PullFailed { retry, .. } => Some(retry),
            _ => None,
        }
    }
}

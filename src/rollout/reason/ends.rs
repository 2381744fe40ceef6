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

    /// When it is over at the latest, if tasks are waited for.
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
            reason => reason.retried_at().or_else(|| reason.deadline()),
        }
    }

    /// When it is tried again before the next run, if it is a question or a pull that failed.
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

    /// Whether it is tried again, if it is a question or a pull that failed.
    pub(crate) fn retry_mut(&mut self) -> Option<&mut Retry> {
        match self {
            Self::TargetUnknown { retry, .. }
            | Self::DigestUnknown { retry, .. }
            | Self::PullFailed { retry, .. } => Some(retry),
            _ => None,
        }
    }
}

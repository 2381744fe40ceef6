//! The failures that a run tries again.

use super::{Reason, Retry};
use crate::manager::ManagerError;

impl Reason {
    /// The Manager did not say which image is published.
    pub(crate) fn target_unknown(error: &ManagerError) -> Self {
        let (error, retry) = (error.clone(), error.retry());
        Self::TargetUnknown { error, retry }
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

    /// Whether it is tried again before the next run.
    pub(crate) fn is_retried(&self) -> bool {
        let (Self::TargetUnknown { retry, .. }
        | Self::DigestUnknown { retry, .. }
        | Self::PullFailed { retry, .. }) = self
        else {
            return false;
        };
        matches!(retry, Retry::At(_))
    }
}

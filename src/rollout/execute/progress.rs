//! The progress and speed of a pull. They are only displayed: no decision depends on them.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::engine::PullProgress;
use crate::sync::lock;
use crate::text::{duration, size};

/// The progress of a pull, as far as the engine reports it. Only layers whose download has started count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PullState {
    /// The image.
    pub image: String,
    /// Bytes downloaded so far.
    pub current: u64,
    /// Bytes to download; this grows while layers become known.
    pub total: u64,
    /// Bytes per second since the download started.
    pub rate: u64,
    /// Seconds left at this rate; `None` while that is zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<u64>,
}

impl PullState {
    /// Whole percents, rounded down.
    pub fn percent(&self) -> u64 {
        match self.total {
            0 => 0,
            total => self.current.min(total).saturating_mul(100) / total,
        }
    }
}

/// `42 % of 512 MiB, 12 MiB/s, 25s left`.
impl fmt::Display for PullState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} % of {}", self.percent(), size::text(self.total))?;
        if let Some(eta) = self.eta {
            let left = duration::text(Duration::from_secs(eta));
            write!(f, ", {}/s, {left} left", size::small(self.rate))?;
        }
        Ok(())
    }
}

/// Measures one pull. A clone measures the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter(Arc<Mutex<Option<Measured>>>);

#[derive(Clone, Copy, Debug)]
struct Measured {
    /// The bytes already there when the download started, and when that was.
    first: (u64, Instant),
    latest: PullProgress,
}

impl Meter {
    pub(super) fn note(&self, latest: PullProgress) {
        let mut measured = lock(&self.0);
        let first = measured.map_or_else(|| (latest.current, Instant::now()), |known| known.first);
        *measured = Some(Measured { first, latest });
    }

    /// The state of the pull of this image; `None` before its download starts.
    pub(super) fn state(&self, image: &str) -> Option<PullState> {
        let Measured { first, latest } = (*lock(&self.0))?;
        let (before, since) = first;
        let PullProgress { current, total } = latest;
        let milliseconds = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let arrived = current.saturating_sub(before).saturating_mul(1000);
        let rate = arrived.checked_div(milliseconds).unwrap_or_default();
        Some(PullState {
            image: image.to_owned(),
            current,
            total,
            rate,
            eta: total.saturating_sub(current).checked_div(rate),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pull_progress_is_measured_from_the_first_byte() {
        const MIB: u64 = 1024 * 1024;
        let meter = Meter::default();
        assert_eq!(meter.state("a:1"), None);
        let note = |current| {
            let total = 100 * MIB;
            meter.note(PullProgress { current, total });
        };
        let shown = || meter.state("a:1").map(|state| state.to_string());
        // Bytes from a cache do not count.
        note(20 * MIB);
        assert_eq!(shown().as_deref(), Some("20 % of 100 MiB"));
        tokio::time::advance(Duration::from_secs(10)).await;
        note(40 * MIB);
        assert_eq!(shown().as_deref(), Some("40 % of 100 MiB, 2 MiB/s, 30s left"));
        // A stalled pull becomes slower.
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(shown().as_deref(), Some("40 % of 100 MiB, 512 KiB/s, 2m left"));
        note(100 * MIB);
        let state = meter.state("a:1");
        assert_eq!(state.and_then(|state| state.eta), Some(0));
        assert_eq!(
            PullState {
                total: 0,
                ..meter.state("a:1").unwrap_or_else(|| unreachable!())
            }
            .percent(),
            0
        );
    }
}

//! When a replacement may start: what the administrator and the owner of a delegate say about it.

use chrono::{DateTime, Utc};

use super::{Intent, OwnerSettings};
use crate::config::Timing;
use crate::host::hold::Holds;
use crate::image::{Expiry, ImageReference};
use crate::rollout::reason::Reason;
use crate::text::duration::span;

/// The settings and facts that say when another image may start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning<'a> {
    /// The settings on its owner's labels.
    pub(crate) limits: &'a OwnerSettings,
    /// The administrator's settings.
    pub(crate) timing: &'a Timing,
    /// The holds that the engine remembers, where they were read; or why they cannot be.
    pub(crate) holds: Option<&'a Result<Holds, String>>,
    /// Whether this is a plan, which notes nothing.
    pub(crate) is_plan: bool,
    /// How long the version that runs is supported.
    pub(crate) expiry: Option<Expiry>,
    /// The present moment.
    pub(crate) now: DateTime<Utc>,
}

/// Why another image may not start now.
#[derive(Debug)]
pub(crate) enum Holdup {
    /// It may not start, or not yet.
    Reason(Reason),
    /// The holds that the engine remembers have to be read first.
    Unread,
    /// This image was never seen here before, which is to be remembered.
    Unseen(String),
}

impl Beginning<'_> {
    /// Of several reasons it is the one that ends last. An operator who names a delegate waits for no time, but a pin is
    /// about the image.
    pub(crate) fn holdup(&self, reference: &ImageReference, intent: Intent) -> Option<Holdup> {
        if intent == Intent::Rollback {
            return None;
        }
        if let Some(reason) = self.is_not_wanted(reference) {
            return Some(Holdup::Reason(reason));
        }
        if intent == Intent::Retry {
            return None;
        }
        let timing = self.timing;
        let is_staged = !timing.delay.is_zero() || timing.wave.is_some();
        let mut reasons: Vec<Reason> = self.snoozed(reference).into_iter().collect();
        reasons.extend(self.outside_window(reference));
        // When an image was first seen is noted at once, whatever else holds it back.
        if reasons.is_empty() || is_staged {
            match self.holds {
                None => return Some(Holdup::Unread),
                Some(Err(problem)) if is_staged => {
                    return Some(Holdup::Reason(Reason::FirstSeenUnknown {
                        image: reference.to_string(),
                        problem: problem.clone(),
                    }));
                }
                // A pause that cannot be read is none.
                Some(Err(_)) => {}
                Some(Ok(holds)) if is_staged && holds.first_seen.is_none() && !self.is_plan => {
                    return Some(Holdup::Unseen(holds.image.clone()));
                }
                Some(Ok(holds)) => reasons.extend(self.held_back(reference, holds)),
            }
        }
        let end = |reason: &Reason| reason.ends_at().unwrap_or(DateTime::<Utc>::MAX_UTC);
        reasons.into_iter().max_by_key(end).map(Holdup::Reason)
    }

    /// Why its owner does not want this image at all, or may not.
    fn is_not_wanted(&self, reference: &ImageReference) -> Option<Reason> {
        let limits = self.limits;
        let image = || reference.to_string();
        if let Some(label) = limits.invalid.clone() {
            return Some(Reason::InvalidLabel {
                image: image(),
                label,
            });
        }
        let pin = limits.pin.as_ref().filter(|pin| !pin.permits(reference));
        if let Some(pin) = pin {
            return Some(Reason::Pinned {
                image: image(),
                pin: pin.clone(),
            });
        }
        None
    }

    fn snoozed(&self, reference: &ImageReference) -> Option<Reason> {
        let snooze = self.limits.snooze_until;
        snooze
            .filter(|until| *until > self.now)
            .map(|until| Reason::Snoozed {
                image: reference.to_string(),
                until,
            })
    }

    /// The holds that the engine remembers: a pause, and since when the image has been seen here.
    fn held_back(&self, reference: &ImageReference, holds: &Holds) -> Vec<Reason> {
        let timing = self.timing;
        let image = || reference.to_string();
        let pause = holds.pause.as_ref().filter(|pause| pause.lasts(self.now));
        let paused = pause.map(|pause| Reason::Paused {
            image: image(),
            delegate: pause.delegate.clone(),
            until: pause.until,
        });
        let first_seen = holds.first_seen.unwrap_or(self.now);
        let delayed_until = first_seen + span(timing.delay);
        let delayed = (delayed_until > self.now).then(|| Reason::Delayed {
            image: image(),
            first_seen,
            until: delayed_until,
        });
        let wave = timing.wave.filter(|_| !self.is_urgent());
        let awaiting_wave = wave.and_then(|wave| {
            let until = delayed_until + wave.wait(holds.place);
            (until > self.now).then(|| Reason::AwaitingWave {
                image: image(),
                wave,
                until,
            })
        });
        paused.into_iter().chain(delayed).chain(awaiting_wave).collect()
    }

    /// The owner's window takes precedence over the administrator's. A delegate whose version is out of support may ignore windows.
    fn outside_window(&self, reference: &ImageReference) -> Option<Reason> {
        let timing = self.timing;
        let window = self.limits.window.as_ref().or(timing.window.as_ref())?;
        if self.is_urgent() || window.is_open(self.now) {
            return None;
        }
        Some(Reason::OutsideWindow {
            image: reference.to_string(),
            window: window.to_string(),
            until: window.next_opening(self.now),
        })
    }

    /// Whether it waits neither for a window nor for a wave, since its version is past its end of life.
    fn is_urgent(&self) -> bool {
        let expiry = self.expiry.as_ref();
        let is_expired = expiry.is_some_and(|expiry| self.now.date_naive() > expiry.life_ends);
        self.timing.now_if_expired && is_expired
    }
}

//! When a replacement may begin (S25): what the administrator and the owner of a delegate say about it.

use chrono::{DateTime, Utc};

use super::At;
use crate::image::ImageReference;
use crate::rollout::reason::Reason;
use crate::rollout::{Intent, Member};

impl At<'_> {
    /// Why a replacement by this image may not begin yet, if so; of several reasons the one that ends last. An operator
    /// who names a delegate waits for no time, but a pin is about the image.
    pub(super) fn may_not_begin(
        &self,
        serving: &Member,
        reference: &ImageReference,
        intent: Intent,
    ) -> Option<Reason> {
        if intent == Intent::Rollback {
            return None;
        }
        let limits = &self.rollout.limits;
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
        let snooze = limits.snooze_until.filter(|until| *until > self.now);
        let snoozed = snooze.map(|until| Reason::Snoozed {
            image: image(),
            until,
        });
        let reasons = snoozed.into_iter().chain(self.outside_window(serving, reference));
        let waits = reasons.filter(|_| intent == Intent::Upgrade);
        waits.max_by_key(|reason| reason.ends_at().unwrap_or(DateTime::<Utc>::MAX_UTC))
    }

    /// The owner's window goes before the administrator's. One whose version has come to the end of its life may wait for none.
    fn outside_window(&self, serving: &Member, reference: &ImageReference) -> Option<Reason> {
        let timing = &self.policy.timing;
        let window = self.rollout.limits.window.as_ref().or(timing.window.as_ref())?;
        let is_urgent = timing.now_if_expired && self.is_expired(serving);
        if is_urgent || window.is_open(self.now) {
            return None;
        }
        Some(Reason::OutsideWindow {
            image: reference.to_string(),
            window: window.to_string(),
            until: window.next_opening(self.now),
        })
    }

    fn is_expired(&self, serving: &Member) -> bool {
        let expiry = serving.image.expiry();
        expiry.is_some_and(|expiry| self.now.date_naive() > expiry.life_ends)
    }
}

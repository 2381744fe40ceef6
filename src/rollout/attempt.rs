//! The attempt marker of an `--rm` candidate, which vanishes by stopping: that its image was tried must outlast it.

use chrono::{DateTime, Utc};

use super::{FailureCause, Member, Rollout, Vanished};
use crate::container::{ImageId, Role};

impl Rollout {
    /// The attempt marker of this candidate, or of this successor, which was one.
    pub(super) fn attempt_of(&self, candidate: &Member) -> Option<&Member> {
        let attempt = self.attempt.as_ref()?;
        (attempt.id != candidate.id && attempt.is_marker_of(candidate)).then_some(attempt)
    }

    /// The candidate that is rejected with this container: itself, or the one that this attempt marker was made for,
    /// if it is still there.
    pub(crate) fn candidate_of<'a>(&'a self, rejected: &'a Member) -> Option<&'a Member> {
        match rejected.role {
            Role::Attempt => self.tried_by(rejected),
            _ => Some(rejected),
        }
    }

    /// The candidate that an attempt marker was made for.
    fn tried_by(&self, attempt: &Member) -> Option<&Member> {
        let is_marker = |member: &&Member| {
            matches!(
                member.role,
                Role::Failed { .. } | Role::Inconclusive { .. } | Role::Attempt
            )
        };
        let mut candidates = self.members().filter(|member| !is_marker(member));
        candidates.find(|member| attempt.is_marker_of(member))
    }

    /// The attempt marker that nobody needs any more: of a successor that is settled, of a candidate that is gone
    /// and not to blame, or that nothing here has started, or of a delegate that is gone.
    pub(super) fn needless_attempt(&self, is_stop_first: bool, now: DateTime<Utc>) -> Option<&Member> {
        let attempt = self.attempt.as_ref()?;
        let Some(serving) = &self.serving else {
            let is_alone = self.candidate.is_none() && self.draining.is_empty() && self.standby.is_none();
            // Nothing here starts a stop-first candidate while the old one lives on.
            let lives_on =
                |old: &Member| old.is_up() && old.started_at.is_some_and(|at| at < attempt.created_at);
            let is_premature =
                is_stop_first && self.candidate.is_none() && self.draining.iter().any(lives_on);
            // Somebody started the copy, which the candidate that this process started cannot run beside.
            let by_somebody = |copy: &Member| copy.is_up() && !copy.history.restarted_by_us;
            let is_crowded_out = is_stop_first
                && self.candidate.is_none()
                && self.standby.as_ref().is_some_and(by_somebody)
                && self.vanished_candidate(&attempt.image_id).is_some();
            let is_needless = is_alone || is_premature || is_crowded_out;
            return Some(attempt).filter(|attempt| is_needless && attempt.is_removable());
        };
        // Whatever becomes of it later, it proved itself, and nothing is left to go back to.
        let has_gone = |old: &Member| old.removal_is_stuck(now);
        let is_settled =
            self.draining.iter().all(has_gone) && self.standby.is_none() && attempt.is_marker_of(serving);
        let is_excused = |gone: &Vanished| gone.is_excused && gone.image == attempt.image_id;
        let is_excused = self.candidate.is_none() && self.vanished.iter().any(is_excused);
        (attempt.is_removable() && (is_settled || is_excused)).then_some(attempt)
    }

    /// The attempt marker whose candidate is gone, and what counts against its image. It is judged once the delegate is
    /// in service again.
    pub(super) fn vanished_attempt(&self) -> Option<(&Member, FailureCause)> {
        let attempt = self.attempt.as_ref()?;
        let is_gone = self.serving.is_some() && self.tried_by(attempt).is_none();
        let known = self.vanished_candidate(&attempt.image_id);
        let cause = known.map_or(FailureCause::Vanished { problem: None }, Vanished::failure);
        is_gone.then_some((attempt, cause))
    }

    /// What is known of a candidate of this image that is gone, and may be to blame.
    pub(super) fn vanished_candidate(&self, image: &ImageId) -> Option<&Vanished> {
        let mut vanished = self.vanished.iter();
        vanished.find(|vanished| vanished.image == *image && !vanished.is_excused)
    }
}

impl Member {
    /// Whether this marker was made for that candidate: after it, of its image, and to replace the same container.
    pub(super) fn is_marker_of(&self, candidate: &Self) -> bool {
        self.image_id == candidate.image_id
            && self.replaces == candidate.replaces
            && self.created_at >= candidate.created_at
    }
}

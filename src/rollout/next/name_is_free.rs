//! A candidate, and no container with the name: between the two renames of a commit, in a stop-first replacement, or after
//! someone removed the container in service.

use super::proof::Proof;
use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::pace::LONG_GRACE;
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, FailureCause, Member, Row, Step};

impl At<'_> {
    pub(super) fn name_is_free(&self, candidate: &Member) -> Decided {
        let rollout = self.rollout;
        // A container that Docker is removing does not come back.
        let old = rollout
            .predecessor_of(candidate)
            .filter(|old| old.state != RunState::Removing);
        let retired = old.filter(|old| old.role == Role::Retired);
        let up = old.filter(|old| old.is_up());
        let is_created = candidate.is_created();
        let helper = rollout.helper.as_ref().map(|helper| &helper.id);
        let is_helper = helper.is_some() && helper == self.facts.own.as_ref();
        let made_of = candidate.fingerprint.as_ref();
        let is_changed = is_created
            && up.is_some_and(|old| candidate.is_successor_of(old) && made_of != Some(&old.settings));
        match (self.proof(candidate), retired, up) {
            _ if let Some(renamed) = rollout.renamed_predecessor() => self.renamed(renamed, candidate),
            _ if is_changed => self.withdraw(
                Row::OldChanged,
                candidate,
                Some(Reason::settings_changed(rollout)),
            ),
            (Proof::Created, Some(retired), Some(_)) if is_helper => {
                Row::HelperStop.act(Step::drain(rollout, retired, self.now))
            }
            (.., None) if candidate.life.was_stopped => Row::FreeStopped.rest(Reason::not_running(candidate)),
            _ if candidate.life.was_stopped => self.withdraw(Row::FreeStopped, candidate, None),
            (Proof::Failed(cause), Some(_), _) => self.reject(Row::RetiredReject, candidate, cause),
            (Proof::Created, Some(_), _) => {
                let problem = format!("{} was never started", candidate.name);
                let cause = FailureCause::StartRefused { problem };
                self.reject(Row::RetiredReject, candidate, cause)
            }
            (_, Some(_), _) if candidate.works() && !rollout.is_upgrader() => {
                Row::TakeName.act(Step::promote(rollout, candidate))
            }
            // An old one that runs is asked to stop only where something can be started after that.
            (Proof::Created, ..) if let Some(missing) = rollout.missing_companion() => {
                Row::CompanionMissing.rest(Reason::Obstacle(missing.clone()))
            }
            // As long as neither runs, a prune would take both.
            (Proof::Failed(_), ..)
                if let Some(old) = old.filter(|old| !candidate.is_up() && self.may_start_again(old)) =>
            {
                Row::FreeReject.act(Step::start(old))
            }
            (Proof::Failed(cause), ..) if old.is_some() => self.reject(Row::FreeReject, candidate, cause),
            (_, None, Some(old)) if is_created || self.is_stop_first() => self.stop(Row::FreeStop, old),
            (Proof::Created, ..) if let Some(other) = self.keeps_from_starting() => {
                self.wait_for_end(Row::FreeStart, other)
            }
            (Proof::Created, ..) => Row::FreeStart.act(Step::start(candidate)),
            (Proof::Proven, ..) if !rollout.is_upgrader() => {
                Row::FreePromote.act(Step::promote(rollout, candidate))
            }
            (Proof::Failed(_), ..) => self.recreate(candidate),
            (Proof::NotYet { reason, until }, ..) => Row::FreeProving.wait(reason, until),
            (Proof::Proven, ..) => {
                let reason = Reason::proving(candidate, self.policy.healthy_time, self.now);
                Row::FreeProving.wait(reason, self.soon())
            }
        }
    }

    /// Its owner gave the container that the candidate was to replace another name. It may have been asked to stop, where
    /// the candidate was to be started after that: then the candidate takes its place. A process that created the candidate
    /// in this run knows whether it has asked.
    fn renamed(&self, renamed: &Member, candidate: &Member) -> Decided {
        let wait = span(self.policy.idle_wait) + span(renamed.stop_timeout) + LONG_GRACE;
        let was_asked = renamed.history.stop_requested_at.is_some();
        let may_end = self.is_stop_first() && (was_asked || !self.facts.has_created);
        if candidate.is_created() && may_end && self.now - candidate.created_at < wait {
            return self.wait_for_end(Row::Renamed, renamed);
        }
        self.withdraw(Row::Renamed, candidate, None)
    }

    /// Nothing is there to go back to but the candidate's own settings and the image before. Compose stops all containers of
    /// a project before it removes them.
    fn recreate(&self, candidate: &Member) -> Decided {
        let row = Row::Recreate;
        let first = self.before_giving_up(row, candidate);
        let first = first.or_else(|| self.may_return(row, candidate, LONG_GRACE));
        let (from, image) = (candidate.id.clone(), candidate.previous.clone());
        first.unwrap_or_else(|| row.act(Step::Recreate { from, image }))
    }
}

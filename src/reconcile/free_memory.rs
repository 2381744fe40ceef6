//! Whether the host has memory for a second container beside the first, and which other containers use it meanwhile.

use chrono::{DateTime, Utc};

use super::Reconciler;
use super::concurrency::crowd;
use crate::container::{ContainerId, RunState};
use crate::engine::Engine;
use crate::health::HealthEndpoint;
use crate::host::capacity::{Others, available_memory, fits, memory_uses};
use crate::manager::ImageSource;
use crate::rollout::{Decision, Fact, Member, Rollout, next};

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Finds out whether there is memory. The answer holds until the replacement is over.
    pub(super) async fn learn_free_memory(
        &mut self,
        rollout: &Rollout,
        serving: &Member,
        all: &[Rollout],
        now: DateTime<Utc>,
    ) {
        let here = (self.settings.scope.free_memory)();
        let available = available_memory(self.engine.as_ref(), here).await;
        if available.is_some() {
            self.sample_memory(rollout, all, now).await;
        }
        let needed = self.memory_need(rollout, serving);
        let crowd: Vec<ContainerId> = crowd(rollout, all, now)
            .map(|(_, member)| member.id.clone())
            .collect();
        // If the use is unknown, a second container is allowed.
        let fits = match (needed, available) {
            (Some(needed), Some(available)) if is_running(serving) => {
                let most = self.others(rollout, all, now, |_| 0);
                let fits_at_most = fits(needed, available, most) == Ok(true);
                let others = if fits_at_most {
                    most
                } else {
                    let uses = memory_uses(self.engine.as_ref(), crowd.clone()).await;
                    self.others(rollout, all, now, |id| uses.get(id).copied().unwrap_or_default())
                };
                fits(needed, available, others)
            }
            _ => Ok(true),
        };
        let tracked = self.track(rollout);
        if fits == Ok(false) {
            tracked.crowd = crowd;
        } else {
            tracked.free_memory = Some(fits.map(|_| ()));
        }
    }

    /// How much memory a successor of this one may take, in bytes: its limit, or a higher one that an operator wants, or else its
    /// current use.
    fn memory_need(&self, rollout: &Rollout, serving: &Member) -> Option<u64> {
        let tracked = self.tracked.get(&rollout.name);
        let new = self.core.run.intent.new_settings(serving.id.as_str());
        let wanted = new.and_then(|new| new.memory).map(|limit| limit.memory);
        serving
            .memory_limit
            .max(wanted.filter(|limit| *limit > 0))
            .or(tracked.and_then(|tracked| tracked.memory_use))
    }

    /// The memory of the containers that prove themselves or are about to end, by their current use.
    fn others(
        &self,
        rollout: &Rollout,
        all: &[Rollout],
        now: DateTime<Utc>,
        present: impl Fn(&ContainerId) -> u64,
    ) -> Others {
        let mut others = Others::default();
        for (other, member) in crowd(rollout, all, now) {
            let present = present(&member.id);
            let is_new = other.candidate.as_ref() == Some(member);
            let most = self
                .memory_need(other, member)
                .filter(|_| is_new)
                .unwrap_or_default();
            others.reserved = others.reserved.saturating_add(most.saturating_sub(present));
            others.in_use = others.in_use.saturating_add(present);
        }
        others
    }

    /// Samples the current use of containers without a limit. The engine takes a second for each, so all delegates that have a
    /// candidate or are asked about next are sampled at once.
    async fn sample_memory(&mut self, first: &Rollout, all: &[Rollout], now: DateTime<Utc>) {
        let is_next = |rollout: &Rollout| {
            let (desired, mut facts) = self.known(rollout, all, now);
            facts.hidden_obstacle.get_or_insert(Ok(()));
            let (decided, _) = next(rollout, &desired, &self.policy(rollout), &facts, now);
            matches!(decided.decision, Decision::Learn(Fact::FreeMemory))
        };
        let unknown = all.iter().filter_map(|rollout| {
            let serving = rollout.serving.as_ref().filter(|serving| needs_sample(serving))?;
            let is_asked = || rollout.name == first.name || rollout.candidate.is_some() || is_next(rollout);
            let is_unknown = self.memory_need(rollout, serving).is_none();
            (is_unknown && is_asked()).then(|| (rollout.name.clone(), serving.id.clone()))
        });
        let unknown: Vec<_> = unknown.collect();
        let ids = unknown.iter().map(|(_, id)| id.clone()).collect();
        let uses = memory_uses(self.engine.as_ref(), ids).await;
        for (name, id) in unknown {
            if let Some(tracked) = self.tracked.get_mut(&name) {
                tracked.memory_use = uses.get(&id).copied();
            }
        }
    }

    /// Forgets the answers when no replacement is in progress: they are too old for the next one.
    pub(super) fn forget_answers(&mut self, rollouts: &[Rollout]) {
        for rollout in rollouts.iter().filter(|rollout| !rollout.is_in_progress()) {
            self.track(rollout).forget_memory();
        }
    }
}

fn is_running(serving: &Member) -> bool {
    serving.state == RunState::Running
}

/// Whether only the engine can say how much memory another container like this one takes.
fn needs_sample(serving: &Member) -> bool {
    is_running(serving) && serving.memory_limit.is_none()
}

//! A walk through every combination of containers: no forbidden step, and each ends at rest with one in service.

use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::container::{Role, RunState};
use delegate_upgrader::rollout::{Decided, Decision, Facts, Member, Rollout, Row, Step};

use super::effects::Fate;
use super::scene::{Scene, now};
use super::states::each_scene;

/// The distance between two scenes from which walks start; `WALK=1` walks from all of them.
const STRIDE: usize = 11;
/// The most decisions until a rest. Most of them are waits for a health check.
const DECISIONS: usize = 200;

/// The maximum time in seconds without a container that takes tasks: the pauses before an ended container is started, and
/// a candidate that ignores its stop request.
const UNSERVED: i64 = 40;

struct Walk {
    scene: Scene,
    fate: Fate,
    taken: Vec<(Row, &'static str)>,
    /// The time without a container that takes tasks.
    unserved: TimeDelta,
}

impl Walk {
    /// Decides, acts and waits until nothing is left to do.
    fn run(&mut self) -> Result<(), &'static str> {
        while self.taken.len() < DECISIONS {
            let Decided { row, decision } = self.scene.decided();
            self.taken.push((row, decision.kind()));
            match decision {
                Decision::Act(step) => {
                    if let Some(rule) = self.scene.forbids(row, &step) {
                        return Err(rule);
                    }
                    self.changes(|scene| scene.take(&step))?;
                }
                Decision::Learn(fact) => self.changes(|scene| scene.learn(&fact))?,
                Decision::Wait { until, .. } if until <= self.scene.now => {
                    return Err("it waits for the past");
                }
                Decision::Wait { until, .. } => {
                    self.unserved = if self.takes_tasks() {
                        TimeDelta::zero()
                    } else {
                        self.unserved + (until - self.scene.now)
                    };
                    if self.unserved > TimeDelta::seconds(UNSERVED) {
                        return Err("nobody is there to take tasks for long");
                    }
                    self.scene.pass(until, self.fate);
                }
                Decision::Rest(_) => return Ok(()),
            }
            if self.waits_for_health() {
                return Ok(());
            }
        }
        Err("there is no end")
    }

    /// Whether an old container is kept for as long as the one in service does not work.
    fn waits_for_health(&self) -> bool {
        let rollout = &self.scene.rollout;
        let is_long = self.scene.now - now() > TimeDelta::minutes(10);
        is_long && !rollout.old.is_empty() && rollout.serving.as_ref().is_some_and(|serving| !serving.works())
    }

    /// Whether a running container takes tasks, or its owner stopped it. If two cannot run at once, a container that finishes
    /// its tasks has its time before another one can start.
    fn takes_tasks(&self) -> bool {
        let rollout = &self.scene.rollout;
        let named = rollout
            .serving
            .iter()
            .chain(&rollout.candidate)
            .chain(&rollout.relatives);
        let drains = |old: &Member| old.role != Role::Retired && old.life.started_at <= old.stopping_since();
        let is_single = rollout.single_instance.is_some();
        let mut old_ones = rollout.old.iter().filter(|old| is_single || !drains(old));
        let is_successor = |serving: &Member| rollout.old.iter().any(|old| serving.is_successor_of(old));
        let is_stopped =
            |serving: &Member| !serving.is_in_use() && !serving.is_created() && !is_successor(serving);
        let was_stopped = |member: &Member| member.life.was_stopped;
        let mut new_ones = rollout.serving.iter().chain(&rollout.candidate);
        if rollout.serving.as_ref().is_some_and(is_stopped) || new_ones.any(was_stopped) {
            return true;
        }
        named.chain(&mut old_ones).any(Member::is_up)
    }

    fn changes(&mut self, change: impl FnOnce(&mut Scene)) -> Result<(), &'static str> {
        let before = self.scene.clone();
        change(&mut self.scene);
        if self.scene == before {
            Err("it changes nothing")
        } else {
            Ok(())
        }
    }

    /// The requirements at rest.
    fn check_rest(&self, start: &Rollout) -> Result<(), &'static str> {
        let end = &self.scene.rollout;
        let can_serve = |member: &Member| member.state != RunState::Removing;
        let was_served = match &start.serving {
            // A container that its owner stopped stays as it is.
            Some(serving) => serving.is_in_use() || serving.is_created(),
            None => start.candidate.iter().chain(&start.old).any(can_serve) || !start.relatives.is_empty(),
        };
        // The owner stopped the container that would serve, so everything stays as it is.
        let mut new_ones = end.serving.iter().chain(&end.candidate);
        if new_ones.any(|member| member.life.was_stopped) {
            return Ok(());
        }
        let is_served = end.serving.iter().chain(&end.relatives).any(Member::is_in_use);
        if was_served && !is_served {
            return Err("no delegate serves");
        }
        if self.waits_for_health() {
            return Ok(());
        }
        let mut failed = end.failed.iter();
        let others = end.candidate.iter().chain(&end.old).chain(&end.withdrawn);
        if others.count() > 0 || failed.any(Member::is_up) {
            return Err("something is left");
        }
        Ok(())
    }
}

/// An outline with a line for each container.
fn outline(rollout: &Rollout) -> String {
    let line = |member: &Member| {
        let state = format!("{:?}, {}", member.state, member.health.status.as_str());
        let asked = member.history.stop_requested_at.map(|_| ", asked to stop");
        format!(
            "    {} ({}): {state}{}\n",
            member.name,
            member.id,
            asked.unwrap_or_default()
        )
    };
    rollout.members().chain(&rollout.relatives).map(line).collect()
}

#[test]
fn every_walk_comes_to_rest_with_a_delegate_and_no_forbidden_step() {
    let stride = env::var("WALK").map_or(STRIDE, |stride| stride.parse().unwrap());
    let mut walked = 0;
    let mut faults: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let scenes = each_scene(stride, |start| {
        walked += 1;
        let fate = [Fate::Works, Fate::NeverHealthy, Fate::Crashes][walked % 3];
        let mut scene = start.clone();
        scene.policy.healthy_deadline = Duration::from_secs(90);
        scene.policy.idle_wait = Duration::from_secs(30);
        scene.shorten_stops();
        if walked % 2 == 0 {
            scene.facts = Facts {
                known_rejections: scene.facts.known_rejections,
                ..Facts::default()
            };
        }
        let taken = Vec::new();
        let mut walk = Walk {
            scene,
            fate,
            taken,
            unserved: TimeDelta::zero(),
        };
        let outcome = walk.run().and_then(|()| walk.check_rest(&start.rollout));
        if let Err(rule) = outcome {
            walk.taken.dedup();
            let (row, kind) = walk.taken.last().unwrap();
            let fault = faults.entry(format!("{rule}: {row} {kind}")).or_insert_with(|| {
                let (from, to) = (outline(&start.rollout), outline(&walk.scene.rollout));
                (
                    0,
                    format!(
                        "{fate:?}, {:?}\n{from}{:?}\n{to}",
                        start.rollout.single_instance, walk.taken
                    ),
                )
            });
            fault.0 += 1;
        }
    });
    let report =
        |(fault, (count, example)): (&String, &(usize, String))| format!("{count} × {fault}\n{example}\n");
    assert!(
        faults.is_empty(),
        "{}",
        faults.iter().map(report).collect::<String>()
    );
    assert!(scenes > 80_000, "{scenes}");
}

#[test]
fn odd_clocks_do_no_harm() {
    for moment in [
        DateTime::UNIX_EPOCH,
        DateTime::<Utc>::MAX_UTC - TimeDelta::days(400_000),
    ] {
        each_scene(STRIDE, |scene| {
            let mut odd = scene.clone();
            odd.now = moment;
            let decided = odd.decided();
            if let Decision::Act(Step::Remove { id, .. } | Step::Start { id, .. }) = &decided.decision {
                assert!(!scene.member(id).is_up(), "{decided:?}");
            }
        });
    }
}

/// An upgrade starts, or is prepared, only in this way. A plan has the same list of blockers, and so has a moment at which
/// everything that was read is old.
#[test]
fn an_upgrade_starts_exactly_when_nothing_blocks_it() {
    let (mut starts, mut rests) = (0, 0);
    each_scene(7, |scene| {
        let blockers = scene.blockers();
        let decided = scene.decided();
        let starts_now = matches!(
            decided.row,
            Row::HoldsUnknown | Row::ObstacleUnknown | Row::Pull | Row::MemoryUnknown | Row::Create
        );
        if starts_now {
            assert_eq!(blockers, [], "{decided:?} in {scene:#?}");
            starts += 1;
        }
        if let (Row::Blocked, Some(reason)) = (decided.row, decided.decision.reason()) {
            assert_eq!(
                Some(reason),
                blockers.first().map(|first| &first.reason),
                "{scene:#?}"
            );
            rests += 1;
        }
        let plan = scene.clone().knowing(|facts| facts.is_plan = true);
        let old = scene.clone().knowing(|facts| facts.holds_are_old = true);
        assert_eq!((plan.blockers(), old.blockers()), (blockers.clone(), blockers));
    });
    assert!(starts > 10 && rests > 10, "{starts} {rests}");
}

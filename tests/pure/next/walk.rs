//! A walk through every combination of containers: no step is forbidden, and each walk comes to rest.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta};
use delegate_upgrader::rollout::{Decided, Decision, Fact, Row, Step, StoppedBy, next};

use super::beyond;
use super::combinations::each_scene;
use super::effects::change;
use super::scene::{now, stopped_by};

/// The most steps in a row without a wait; a whole rollout has a dozen.
const STEPS: usize = 30;

#[test]
fn no_state_leads_to_a_forbidden_step_and_each_comes_to_rest() {
    let mut scenes = 0;
    let mut reached = BTreeSet::new();
    let mut restarts = 0;
    let limit = now() + TimeDelta::seconds(10);
    each_scene(|start| {
        scenes += 1;
        let mut scene = start.clone();
        // One that is unhealthy has failed its checks, and may be restarted where nothing else is to be done.
        scene.policy.restarts_unhealthy = true;
        if let Some(serving) = &mut scene.rollout.serving {
            serving.history.checks.failed = 3;
            serving.history.checks.last_at = Some(now());
        }
        let mut taken: Vec<String> = Vec::new();
        for count in 0.. {
            let Decided { rows, decision } = scene.decided();
            reached.extend(rows);
            taken.push(decision.to_string());
            let step = match decision {
                Decision::Act(step) => step,
                // A wait must end soon enough.
                Decision::Wait { until, reason } => {
                    assert!(
                        now() < until && until <= limit,
                        "{reason} until {until} in {scene:#?}"
                    );
                    break;
                }
                Decision::Rest(_) => break,
                // An end that this walk brought about.
                Decision::Learn(Fact::StoppedBy { container }) => {
                    change(&mut scene, &container, |member| {
                        member.history.stopper = Some(stopped_by(StoppedBy::Nobody, member));
                    });
                    continue;
                }
                // Nobody did.
                Decision::Learn(Fact::ChangedSettings { .. }) => {
                    for old in &mut scene.rollout.draining {
                        old.history.compared_settings = Some(old.settings);
                    }
                    continue;
                }
                // It is gone, and nobody removed it.
                Decision::Learn(Fact::RemovedBy) => {
                    scene.facts.removed_by = Some(StoppedBy::Nobody);
                    continue;
                }
                Decision::Learn(fact) => panic!("{fact} is known in {scene:#?}"),
            };
            assert!(
                !scene.forbids(&step),
                "{taken:#?}\nin {scene:#?}\nfrom {start:#?}"
            );
            assert!(count < STEPS, "no end: {taken:#?}\nfrom {start:#?}");
            restarts += u32::from(matches!(step, Step::Restart { .. }));
            let before = scene.clone();
            scene.take(&step);
            assert!(scene != before, "{step} changes nothing in {scene:#?}");
        }
    });
    assert!(scenes > 100_000, "{scenes}");
    assert!(restarts > 20, "{restarts}");
    reached.extend(
        beyond::scenes()
            .into_iter()
            .flat_map(|scene| scene.decided().rows),
    );
    let missed: Vec<&Row> = Row::ALL.iter().filter(|row| !reached.contains(row)).collect();
    assert!(missed.is_empty(), "no scene reaches {missed:?}");
}

#[test]
fn odd_clocks_do_no_harm() {
    for moment in [
        DateTime::UNIX_EPOCH,
        DateTime::<chrono::Utc>::MAX_UTC - TimeDelta::days(400_000),
    ] {
        let mut scenes = 0;
        each_scene(|scene| {
            scenes += 1;
            if scenes % 7 != 0 {
                return;
            }
            let decided = next(
                &scene.rollout,
                &scene.desired,
                &scene.policy,
                &scene.facts,
                moment,
            );
            if let Decision::Act(Step::Remove { id, .. }) = &decided.decision {
                assert!(!scene.member(id).is_up());
            }
        });
    }
}

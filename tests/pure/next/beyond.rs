//! Rows that the walk does not reach, each with a scene that does: the walk varies what the containers are to each
//! other, and knows all else. These are about what else there is to know.

use std::time::Duration;

use delegate_upgrader::config::Strategy;
use delegate_upgrader::container::RunState;
use delegate_upgrader::document::{DependencyKind, Obstacle};
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{
    Backoff, Member, Reach, RequestedRestart, RolledBackImage, Row, StoppedBy, UnhealthyPeer, Vanished,
};

use super::health::{changed, unhealthy};
use super::scene::{Change, DEADLINE, Scene, V1, V2, V3, ago, helper, image_id, new, old, standby};

/// The same while two old ones of it finish their tasks.
fn crowded(scene: &Scene) -> Scene {
    let old = |id| old().id(id).asked_to_stop(60);
    scene
        .clone()
        .draining(90, old("first"))
        .draining(80, old("second"))
        .published(V2)
}

/// The same where somebody removed the one that had the name.
fn removed(scene: Scene) -> Scene {
    scene.knowing(|facts| facts.removed_by = Some(StoppedBy::Somebody))
}

/// A scene for each of these rows. Without optimization each has a place of its own on the stack, and together they have more
/// than a test's thread.
fn rows() -> Vec<(Row, Scene)> {
    let thread = std::thread::Builder::new().stack_size(32 << 20);
    thread.spawn(all_rows).unwrap().join().unwrap()
}

fn all_rows() -> Vec<(Row, Scene)> {
    let scene = Scene::new;
    let serving = || scene().serving(old());
    let backoff = |attempts| {
        serving().knowing(|facts| {
            facts.backoff = Some(Backoff {
                reason: Reason::NoContainer,
                attempts,
                retry_at: ago(-5),
            });
        })
    };
    let restarted = |m: &mut Member| {
        m.history.checks.restart = Some(RequestedRestart {
            life: m.started_at,
            asked_at: ago(60),
            grace: m.stop_timeout,
        });
    };
    let ended_in_vain = |m: &mut Member| {
        restarted(m);
        (m.state, m.finished_at) = (RunState::Exited, Some(ago(10)));
    };
    let mut health_only = serving();
    health_only.policy.health_only = true;
    let rolled_back = |member: &mut Member| {
        member.rolled_back_from = Some(RolledBackImage {
            reference: V2.into(),
            id: image_id(V2),
        });
    };
    let vanished = serving().pulled(V2).with(|rollout| {
        rollout.vanished = vec![Vanished {
            image: image_id(V2),
            cause: None,
            is_excused: false,
        }];
    });
    let outdated = || new().change(|m| m.history.outdated = Some("/HostConfig/Memory".to_owned()));
    let attempt = || new().id("attempt").policy("no");
    let judged = |reach| {
        serving()
            .attempt(attempt())
            .pulled(V2)
            .knowing(|facts| facts.manager = reach)
    };
    let failed = |reach| {
        let candidate = new().unhealthy(DEADLINE, DEADLINE);
        let scene = serving().candidate(candidate).pulled(V2);
        scene.knowing(|facts| facts.manager = reach)
    };
    let serving_proven = |member: Member| {
        scene()
            .serving(member)
            .candidate(new().running(90, 80))
            .pulled(V2)
    };
    let unreachable = || Some(Reach::Unreachable("connection refused".to_owned()));
    let start_first = |scene: Scene| scene.host_network().strategy(Strategy::StartFirst);
    let late = || new().unhealthy(DEADLINE, DEADLINE);
    let refused =
        |member: Member| member.change(|m| m.history.start_refused = Some("no such file".to_owned()));
    let recreated = || old().id("candidate").replaces("standby").auto_remove();
    let exchange = || scene().upgrader().serving(old()).candidate(new()).pulled(V2);
    let ended = || helper().running(90, 80).exited(20);
    let retired = || scene().draining(90, old().exited(70));
    vec![
        // What the engine failed at, and what its owner or the operator wants left alone.
        (Row::Q1, backoff(10)),
        (Row::Q2, backoff(1)),
        (
            Row::Q3,
            serving().with(|rollout| rollout.inspect_error = Some("timed out".to_owned())),
        ),
        (Row::Q4, health_only),
        (
            Row::Q5,
            serving().with(|rollout| rollout.opted_out = Some("a label")),
        ),
        (
            Row::Q6,
            serving().candidate(new()).with(|rollout| {
                if let Some(candidate) = &mut rollout.candidate {
                    "kept".clone_into(&mut candidate.name);
                }
            }),
        ),
        // What is desired, beyond one image.
        (
            Row::S1,
            scene().serving(old().exited(90)).settle(Reason::NoContainer),
        ),
        (
            Row::S3,
            scene().serving(new().running(90, 90)).failed(
                1,
                new()
                    .image(V3)
                    .policy("no")
                    .exited(80)
                    .change(|m| m.created_at = ago(2000)),
            ),
        ),
        (
            Row::S4,
            serving()
                .settle(Reason::WaitingForReplica { name: "e".to_owned() })
                .knowing(|facts| facts.stalled_replica = Some("it failed".to_owned())),
        ),
        (Row::S6, scene().serving(old().change(rolled_back)).published(V2)),
        (Row::C2, serving().candidate(new()).pulled(V3)),
        // What stands in the way of a replacement.
        (Row::S8, crowded(&serving())),
        (
            Row::S25,
            serving()
                .published(V2)
                .with(|rollout| rollout.limits.snooze_until = Some(ago(-60))),
        ),
        (
            Row::S26,
            serving().published(V2).knowing(|facts| facts.holds = None),
        ),
        (
            Row::S27,
            serving()
                .published(V2)
                .policy(|policy| policy.timing.delay = Duration::from_secs(60))
                .knowing(|facts| {
                    if let Some(Ok(holds)) = &mut facts.holds {
                        holds.first_seen = None;
                    }
                }),
        ),
        (
            Row::S9,
            serving().published(V2).with(|rollout| {
                rollout.obstacle = Some(Obstacle::CopiedFile {
                    path: "/etc/ca.pem".to_owned(),
                });
            }),
        ),
        (
            Row::L1,
            scene()
                .serving(old().asked_to_stop(5).exited(2))
                .candidate(outdated())
                .pulled(V2)
                .host_network(),
        ),
        (
            Row::N15,
            scene().candidate(new()).draining(5, old()).with(|rollout| {
                rollout.obstacle = Some(Obstacle::DependencyMissing {
                    container: "vpn".to_owned(),
                    kind: DependencyKind::Network,
                });
            }),
        ),
        (Row::S10, start_first(serving().published(V2))),
        (Row::S20, start_first(serving().pulled(V2))),
        (
            Row::Y3,
            scene().standby(standby().running(90, 90).asked_to_stop(60)),
        ),
        (Row::Y4, scene().standby(standby().running(5, 5)).host_network()),
        (
            Row::C8,
            scene()
                .serving(old().tasks(1))
                .candidate(new())
                .pulled(V2)
                .host_network(),
        ),
        (Row::C10, start_first(serving().candidate(new()).pulled(V2))),
        (
            Row::S15,
            serving()
                .pulled(V2)
                .with(|rollout| rollout.name_conflict = Some("d.candidate".to_owned())),
        ),
        (
            Row::S16,
            serving()
                .failed(1, new().policy("no").exited(8))
                .pulled(V2)
                .knowing(|facts| facts.known_rejections.clear()),
        ),
        (Row::S17, judged(Some(Reach::Asking))),
        (Row::S18, vanished),
        (Row::F7, judged(None)),
        // What has to be known first, or is in progress.
        (
            Row::S11,
            serving().published(V2).knowing(|facts| facts.is_pulling = true),
        ),
        (
            Row::S12,
            serving()
                .published(V2)
                .knowing(|facts| facts.hidden_obstacle = None),
        ),
        (
            Row::S13,
            serving()
                .failed(1, new().policy("no").exited(80))
                .published(V2)
                .knowing(|facts| facts.is_plan = true),
        ),
        (
            Row::S21,
            serving().pulled(V2).knowing(|facts| facts.hidden_obstacle = None),
        ),
        (
            Row::S22,
            serving().pulled(V2).knowing(|facts| facts.free_memory = None),
        ),
        (
            Row::C6,
            serving()
                .candidate(new())
                .pulled(V2)
                .knowing(|facts| facts.free_memory = None),
        ),
        (
            Row::A10,
            scene()
                .candidate(late())
                .published(V2)
                .knowing(|facts| facts.is_pulling = true),
        ),
        // Who stopped a container.
        (Row::G1, serving_proven(old().stopped_by_whom())),
        (Row::G2, serving_proven(old().stopped_by(StoppedBy::Somebody))),
        (
            Row::Q7,
            serving().candidate(new().running(90, 80).exited(20).stopped_by_whom()),
        ),
        (
            Row::X1,
            serving().attempt(attempt()).pulled(V2).with(|rollout| {
                if let Some(attempt) = &mut rollout.attempt {
                    attempt.history.stopper = None;
                    attempt.predecessor_policy = None;
                }
            }),
        ),
        (
            Row::N10,
            scene()
                .draining(90, old().policy("no").exited(10))
                .candidate(new().running(80, 80).stopped_by_whom()),
        ),
        (
            Row::N11,
            scene()
                .draining(90, old().policy("no").exited(10))
                .candidate(new().running(80, 80).stopped_by(StoppedBy::Somebody)),
        ),
        (
            Row::Y1,
            scene()
                .standby(standby())
                .with(|rollout| rollout.renamed_predecessor = Some(old())),
        ),
        (
            Row::O2,
            scene()
                .draining(90, old().policy("no").stopped_by_whom())
                .failed(1, new().policy("no").exited(20)),
        ),
        (
            Row::G3,
            serving_proven(old().auto_remove())
                .with(|rollout| rollout.name_conflict = Some("d.standby".to_owned())),
        ),
        (Row::X6, failed(None)),
        (Row::X7, failed(Some(Reach::Asking))),
        (
            Row::X8,
            serving()
                .candidate(
                    new()
                        .unhealthy(2 * DEADLINE, 90)
                        .unhealthy_peer(3, UnhealthyPeer::Before),
                )
                .pulled(V2)
                .knowing(|facts| facts.manager = unreachable()),
        ),
        (Row::X9, failed(unreachable())),
        // The attempt marker of an earlier candidate.
        (
            Row::M1,
            serving()
                .standby(standby())
                .candidate(new().auto_remove().change(|m| m.created_at = ago(1)))
                .attempt(attempt().change(|m| m.created_at = ago(2)))
                .withdrawn(
                    9,
                    new()
                        .auto_remove()
                        .change(|m| m.created_at = ago(3))
                        .state(RunState::Removing),
                )
                .pulled(V2),
        ),
        // Somebody changed it while it drains.
        (
            Row::N2,
            scene()
                .draining(90, old().auto_remove())
                .candidate(outdated())
                .standby(standby()),
        ),
        (
            Row::N3,
            scene().draining(90, old().auto_remove()).candidate(outdated()),
        ),
        (
            Row::N16,
            scene()
                .draining(90, old().auto_remove().asked_to_stop(60))
                .candidate(outdated())
                .standby(standby().change(|m| m.history.copied_settings = Some(old().settings))),
        ),
        // A name that an older rejection of another image has.
        (
            Row::X5,
            serving()
                .candidate(late())
                .pulled(V2)
                .failed(1, new().id("f1").image(V3).policy("no").exited(80)),
        ),
        // What this process remembers.
        (
            Row::A1,
            scene()
                .candidate(new())
                .with(|rollout| rollout.renamed_predecessor = Some(old())),
        ),
        (Row::A9, scene().candidate(new().running(DEADLINE, 1))),
        // Somebody started it while the candidate had its port.
        (
            Row::O6,
            scene().host_network().draining(
                90,
                old()
                    .policy("no")
                    .running(5, 0)
                    .change(|m| m.finished_at = Some(ago(70)))
                    .stopped_by(StoppedBy::Nobody),
            ),
        ),
        (
            Row::O8,
            scene().draining(
                90,
                old()
                    .running(60, 0)
                    .exited(5)
                    .change(|m| m.history.restarted_by_us = true),
            ),
        ),
        (
            Row::O9,
            retired().with(|rollout| {
                for old in &mut rollout.draining {
                    old.history.failed_starts = 3;
                }
            }),
        ),
        // Rare states of a standby and what is created from it.
        (
            Row::B6,
            scene()
                .serving(new().auto_remove().running(90, 90))
                .standby(standby().change(|m| {
                    m.previous_image_id = Some(image_id(V3));
                    m.release = 2;
                })),
        ),
        (
            Row::B9,
            scene()
                .serving(recreated().unhealthy(DEADLINE, DEADLINE))
                .standby(standby()),
        ),
        (
            Row::K1,
            scene()
                .serving(old())
                .standby(standby().state(RunState::Removing)),
        ),
        (
            Row::R1,
            scene()
                .standby(standby())
                .candidate(refused(recreated().created())),
        ),
        (
            Row::R4,
            scene().standby(standby()).candidate(recreated().exited(5)),
        ),
        (Row::S7, serving().pulled(V1)),
        // Unhealthy ones are restarted.
        (Row::H1, changed(ended_in_vain)),
        (Row::H2, changed(restarted)),
        (Row::H3, changed(|m| m.started_at = Some(ago(59)))),
        (
            Row::H4,
            changed(|m| m.history.checks.refused = Some("forbidden".to_owned())),
        ),
        (
            Row::H5,
            unhealthy().with(|r| {
                let (container, kind) = ("sidecar".to_owned(), DependencyKind::Network);
                r.obstacle = Some(Obstacle::HasDependent { container, kind });
            }),
        ),
        (
            Row::H6,
            unhealthy().knowing(|facts| (facts.delegates, facts.unhealthy_delegates) = (2, 2)),
        ),
        (Row::H7, unhealthy().knowing(|facts| facts.manager = None)),
        (
            Row::H8,
            unhealthy().knowing(|facts| facts.manager = Some(Reach::Asking)),
        ),
        (
            Row::H9,
            unhealthy().knowing(|facts| facts.manager = Some(Reach::Unreachable("refused".to_owned()))),
        ),
        (Row::H10, changed(|m| *m = m.clone().stopped_by_whom())),
        (
            Row::H11,
            changed(|m| *m = m.clone().stopped_by(StoppedBy::Somebody)),
        ),
        (Row::H12, unhealthy()),
        (Row::H13, changed(|m| m.history.checks.last_at = Some(ago(5)))),
        (
            Row::H14,
            changed(|m| {
                m.history.checks.last_at = Some(ago(5));
                m.history.is_check_due = true;
            }),
        ),
        // An upgrader of which two cannot run at once.
        (Row::J1, exchange()),
        (Row::J2, exchange().helper(helper().image(V3))),
        (Row::J3, exchange().helper(helper())),
        (Row::J4, exchange().ready_helper(ended().stopped_by_whom())),
        (
            Row::J5,
            exchange().ready_helper(ended().stopped_by(StoppedBy::Somebody)),
        ),
        (
            Row::J6,
            exchange().ready_helper(ended().stopped_by(StoppedBy::Nobody)),
        ),
        (Row::J7, exchange().helper(helper().unhealthy(20, 20))),
        (
            Row::J8,
            scene()
                .upgrader()
                .serving(old())
                .ready_helper(helper().running(90, 80)),
        ),
        // The one that had the name is gone.
        (
            Row::V1,
            scene().candidate(new()).knowing(|facts| facts.removed_by = None),
        ),
        (Row::V2, removed(scene().candidate(new()))),
        (Row::V3, removed(scene().standby(standby()))),
        (
            Row::V4,
            removed(scene().draining(90, old().state(RunState::Removing))),
        ),
        (Row::V5, removed(scene().draining(90, old()))),
        (Row::V6, removed(scene().draining(90, old().exited(5)))),
    ]
}

/// The scenes of all these rows.
pub fn scenes() -> Vec<Scene> {
    rows().into_iter().map(|(_, scene)| scene).collect()
}

#[test]
fn each_scene_is_decided_by_its_row() {
    for (row, scene) in rows() {
        let decided = scene.decided();
        assert!(
            decided.rows.contains(&row),
            "{row}: {} says {}",
            decided.path(),
            decided.decision
        );
    }
}

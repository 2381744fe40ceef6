//! What operators demand: retries, rollbacks, and images that were rolled back from.

use delegate_upgrader::rollout::{Intent, RolledBackImage};

use super::scene::{Change, Scene, V1, V2, V3, image_id, new, old};

fn scene() -> Scene {
    Scene::new()
}

#[test]
fn an_image_that_was_rolled_back_is_left_alone_until_another_one_is_published() {
    let back = || {
        old().change(|m| {
            m.rolled_back_from = Some(RolledBackImage {
                reference: V2.into(),
                id: image_id(V2),
            });
        })
    };
    let base = || scene().serving(back());
    assert_eq!(base().published(V2).next(), "rest: rolled_back");
    assert_eq!(base().pulled(V2).next(), "rest: rolled_back");
    assert_eq!(base().published(V3).next(), format!("pull {V3}"));
    assert_eq!(
        base().pulled(V3).next(),
        format!("create from old: {V3}, release 1")
    );
    // An operator can demand it.
    assert_eq!(
        base().pulled(V2).demanded(Intent::Retry).next(),
        format!("create from old: {V2}, release 1")
    );
    // A moved tag is one reference for two images; the id distinguishes them.
    let moving = |id: &str| {
        let mut scene = base().pulled(V1).with(|r| {
            let serving = r.serving.as_mut().unwrap();
            serving.rolled_back_from = Some(RolledBackImage {
                reference: V1.into(),
                id: image_id("moved"),
            });
        });
        if let delegate_upgrader::rollout::Desired::Image { id: wished, .. } = &mut scene.desired {
            *wished = Some(image_id(id));
        }
        scene.next()
    };
    assert_eq!(moving("moved"), "rest: rolled_back");
    assert!(moving("newer").starts_with("create from old"));
    assert_eq!(
        base()
            .published(V1)
            .with(|r| {
                r.serving
                    .as_mut()
                    .unwrap()
                    .rolled_back_from
                    .as_mut()
                    .unwrap()
                    .reference = V1.into();
            })
            .next(),
        format!("pull {V1}")
    );
}

#[test]
fn a_rollback_that_another_process_began_is_finished() {
    let candidate = new().image(V1).replaces("bad").running(90, 3).change(|m| {
        m.rolled_back_from = Some(RolledBackImage {
            reference: V2.into(),
            id: image_id(V2),
        });
    });
    let base = scene().serving(old().id("bad").image(V2)).candidate(candidate);
    assert_eq!(base.clone().pulled(V2).reason().kind().as_str(), "proving");
    // A newer image takes precedence.
    assert_eq!(base.pulled(V3).next(), "withdraw new as d.withdrawn-now");
}

#[test]
fn an_operator_s_command_comes_before_a_quarantine() {
    let rejected = || new().id("f1").policy("no").exited(60);
    let base = || scene().serving(old()).failed(1, rejected()).pulled(V2);
    assert_eq!(base().next(), "rest: quarantined");
    for intent in [Intent::Retry, Intent::Rollback] {
        assert_eq!(
            base().demanded(intent).next(),
            format!("create from old: {V2}, release 1")
        );
    }
}

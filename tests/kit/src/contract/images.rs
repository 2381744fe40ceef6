//! Images: references, ids, moved tags, pulls and removals.

use delegate_upgrader::engine::Engine;
use delegate_upgrader::image::ImageReference;
use serde_json::json;

use super::lab::Lab;
use super::steps::{assert_conflict, assert_not_found, created, image_id_of, seconds};
use crate::twin::Behaviour;

pub async fn a_create_from_an_unknown_image_is_not_found<L: Lab>(lab: &L) {
    let body = lab.body("contract/nothing:1");
    assert_not_found(&lab.engine().create(&lab.name("no-image"), None, &body).await);
    // The failed attempt does not take the name.
    let image = lab.image(Behaviour::default()).await;
    created(lab, "no-image", &lab.body(&image)).await;
}

pub async fn an_image_in_use_is_not_removed<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let image_id = image_id_of(lab, &image).await;
    let id = created(lab, "user", &lab.body(&image)).await;
    assert_conflict(&lab.engine().remove_image(&image_id).await);
    lab.engine().remove(&id).await.expect("remove the container");
    lab.engine()
        .remove_image(&image_id)
        .await
        .expect("remove the image");
    assert_not_found(&lab.engine().inspect_image(image_id.as_str()).await);
    lab.engine().remove_image(&image_id).await.expect("gone already");
}

pub async fn a_failed_pull_is_an_error_and_leaves_the_image<L: Lab>(lab: &L) {
    // Nothing listens on that port, nor has the twin's registry such an image.
    let name = format!("127.0.0.1:1/{}:1", lab.name("unreachable"));
    lab.image_named(&name, Behaviour::default()).await;
    let before = image_id_of(lab, &name).await;
    let reference: ImageReference = name.parse().expect("a reference");
    lab.engine()
        .pull(&reference, None, |_| {})
        .await
        .expect_err("there is no registry");
    lab.engine()
        .distribution(&reference)
        .await
        .expect_err("there is no registry");
    assert_eq!(image_id_of(lab, &name).await, before);
}

pub async fn an_image_is_found_by_reference_and_by_id<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let id = image_id_of(lab, &image).await;
    assert_eq!(image_id_of(lab, id.as_str()).await, id);
    let document = lab.engine().inspect_image(&image).await.expect("inspect image");
    assert_eq!(document["Os"], "linux");
    assert_eq!(document["RepoTags"], json!([image]));
    assert_eq!(document["Config"]["Env"], json!(["PATH=/bin"]));
}

pub async fn a_moved_tag_leaves_the_old_image_to_its_containers<L: Lab>(lab: &L) {
    let name = format!("{}:latest", lab.name("moving"));
    lab.image_named(&name, Behaviour::default()).await;
    let old = image_id_of(lab, &name).await;
    let id = created(lab, "old", &lab.body(&name)).await;
    lab.image_named(&name, Behaviour::drains(seconds(1))).await;
    let new = image_id_of(lab, &name).await;
    assert_ne!(old, new);
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(
        (seen.image_id(), seen.image_reference()),
        (old.clone(), name.as_str())
    );
    assert_eq!(
        image_id_of(lab, old.as_str()).await,
        old,
        "an image without a tag is still found by id"
    );
}

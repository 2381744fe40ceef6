//! What a host's administrator lets in, whatever is published.

use kit::lab::{Lab, V1, V2, docker, image, image_of, life};

/// The image with the digest that the registry knows it by.
fn pinned(version: &str) -> String {
    let name = image(version);
    let repository = name.rsplit_once(':').expect("a tag").0;
    let digests = docker(&["inspect", "--format", "{{json .RepoDigests}}", &name]);
    let digests: Vec<String> = serde_json::from_str(&digests).expect("digests");
    let digest = digests
        .iter()
        .find_map(|known| known.strip_prefix(&format!("{repository}@")));
    format!("{name}@{}", digest.expect("a digest of this repository"))
}

#[test]
fn a_version_newer_than_permitted_waits() {
    let lab = Lab::new("max-version");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let upgrader = lab.upgrader(V2).with("MAX_VERSION", "26.01");
    for command in ["once", "plan", "doctor"] {
        let run = upgrader.run(&[command]);
        assert_eq!(run.code, Some(0), "{command}: {}", run.text);
        let told = format!(
            "{} is published, but it is newer than MAX_VERSION=26.01",
            image(V2)
        );
        assert!(run.text.contains(&told), "{command}: {}", run.text);
    }
    assert_eq!((life(&name), lab.names()), (before, vec!["1".to_owned()]));

    let run = upgrader.with("MAX_VERSION", "26.02").run(&["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(image_of(&name), image(V2));
    let back = lab.upgrader(V1).run(&["once"]);
    let told = format!(
        "downgrading from {} to {}, the published image",
        image(V2),
        image(V1)
    );
    assert!(back.text.contains(&told), "{}", back.text);
    assert_eq!(image_of(&name), image(V1));
}

#[test]
fn an_image_without_a_digest_is_refused_where_one_is_required() {
    let lab = Lab::new("digest");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let upgrader = lab.upgrader(V2).with("REQUIRE_DIGEST", "true");
    for command in ["once", "plan", "doctor"] {
        let run = upgrader.run(&[command]);
        assert_eq!(run.code, Some(1), "{command}: {}", run.text);
        let told = "has no digest of its own: publish it as repository:tag@sha256:";
        assert!(run.text.contains(told), "{command}: {}", run.text);
    }
    assert_eq!((life(&name), lab.names()), (before, vec!["1".to_owned()]));

    let published = pinned(V2);
    let upgrader = upgrader.with("PUBLISHED_IMAGE", &published);
    let run = upgrader.run(&["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(image_of(&name), published);
    let plan = upgrader.run(&["plan"]);
    assert!(plan.text.contains("runs the published image"), "{}", plan.text);
}

//! The digest of an image in the answer of its registry.

use delegate_upgrader::image::ImageReference;
use delegate_upgrader::managed::pinned;
use delegate_upgrader::rollout::reason::Reason;
use serde_json::{Value, json};

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const OTHER: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

/// The result of a registry's answer for a service with an image of [`DIGEST`] on nodes of two platforms.
fn answered(published: &str, answer: &Value) -> Result<ImageReference, Reason> {
    let image = format!("harness/delegate:26.01.1@{DIGEST}");
    let platforms = ["linux/amd64".to_owned(), "linux/arm64".to_owned()];
    let reference = published.parse().unwrap();
    pinned(&image.as_str().into(), &reference, answer, &platforms)
}

#[test]
fn the_index_digest_identifies_an_image() {
    let both =
        json!([{ "os": "linux", "architecture": "amd64" }, { "os": "linux", "architecture": "arm64" }]);
    let answer = json!({ "Descriptor": { "digest": OTHER }, "Platforms": both });
    let pinned = answered("harness/delegate:26.02.2", &answer).map(|image| image.to_string());
    assert_eq!(pinned, Ok(format!("harness/delegate:26.02.2@{OTHER}")));
    let answer = json!({ "Descriptor": { "digest": DIGEST }, "Platforms": both });
    let same = answered("harness/delegate:26.02.2", &answer);
    assert!(matches!(same, Err(Reason::SameImage { .. })), "{same:?}");
}

#[test]
fn nothing_is_decided_without_a_digest() {
    for answer in [
        json!({}),
        json!({ "Descriptor": { "digest": "" } }),
        json!({ "Descriptor": { "digest": "latest" } }),
    ] {
        let unknown = answered("harness/delegate:26.02.2", &answer);
        assert!(
            matches!(unknown, Err(Reason::DigestUnknown { .. })),
            "{unknown:?}"
        );
    }
}

#[test]
fn an_image_must_support_the_platforms_of_all_nodes() {
    let one =
        json!([{ "os": "linux", "architecture": "amd64" }, { "os": "unknown", "architecture": "unknown" }]);
    let answer = json!({ "Descriptor": { "digest": OTHER }, "Platforms": one });
    let refused = answered("harness/delegate:26.02.2", &answer);
    assert!(
        matches!(&refused, Err(Reason::WrongPlatform { needed, .. }) if needed == "linux/arm64"),
        "{refused:?}"
    );
    // A single manifest does not name its platform, and some builders spell it as `uname` does.
    for platforms in [
        json!([{}]),
        json!([]),
        Value::Null,
        json!([{ "os": "", "architecture": "" }]),
        json!([{ "os": "linux", "architecture": "aarch64", "variant": "v8" }, { "os": "linux", "architecture": "x86_64" }]),
    ] {
        let answer = json!({ "Descriptor": { "digest": OTHER }, "Platforms": platforms });
        assert!(answered("harness/delegate:26.02.2", &answer).is_ok(), "{answer}");
    }
}

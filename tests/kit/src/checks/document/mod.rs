//! The rules for the document functions, for any input.
//!
//! An input is one JSON object: `container`, an inspect document; `old` and `new`, the images; `recreated`, optionally
//! the inspect document of a container that replaced it; `api`, the minor number of the engine's API version.

mod carried;
mod lived;
mod owner;
mod paths;
mod shown;

use delegate_upgrader::container::{ApiVersion, ImageId, Inspected, label};
use delegate_upgrader::document::{
    CreateRequest, Images, Obstacle, Overrides, create_request, dependencies, differences,
    single_instance_reasons, swarm_network, verify,
};
use serde_json::{Map, Value};

/// Fields of an endpoint that the network gives it and no owner sets.
pub const ENDPOINT_REPORTS: [&str; 9] = [
    "NetworkID",
    "EndpointID",
    "Gateway",
    "IPAddress",
    "IPPrefixLen",
    "IPv6Gateway",
    "GlobalIPv6Address",
    "GlobalIPv6PrefixLen",
    "DNSNames",
];

const REFERENCE: &str = "harness/delegate:2";
const IMAGE_ID: &str = "sha256:2222";

/// Checks one input; skips inputs that are not a JSON object, or have no container with an id.
pub fn check(data: &[u8]) {
    let Ok(Value::Object(input)) = serde_json::from_slice(data) else {
        return;
    };
    let part = |name| input.get(name).cloned().unwrap_or_default();
    let Some(container) = Inspected::new(part("container")) else {
        return;
    };
    let minor = input.get("api").and_then(Value::as_u64).unwrap_or(51);
    let api = ApiVersion::new(1, u16::try_from(minor).unwrap_or(u16::MAX));
    let (old, new) = (part("old"), part("new"));
    let images = Images { old: &old, new: &new };
    for is_by_id in [false, true] {
        let given = Given {
            is_by_id,
            labels: labels(&container),
        };
        as_it_is(&container, images, &given, api);
    }
    compared(&container, Inspected::new(part("recreated")), images);
    lived::check(&container, images, api);
}

/// Our own parts of a new container.
struct Given {
    is_by_id: bool,
    labels: Vec<(&'static str, String)>,
}

/// The create call; asks for it twice and compares.
fn made(
    container: &Inspected,
    images: Images<'_>,
    given: &Given,
    api: ApiVersion,
) -> Result<CreateRequest, Obstacle> {
    let id = ImageId::new(IMAGE_ID);
    let overrides = Overrides {
        reference: REFERENCE,
        by_id: given.is_by_id.then_some(&id),
        labels: &given.labels,
    };
    let first = create_request(container, images, &overrides, api);
    let second = create_request(container, images, &overrides, api);
    assert!(first == second, "two answers to one question");
    first
}

/// Our labels on a container that is created from this one.
fn labels(container: &Inspected) -> Vec<(&'static str, String)> {
    vec![
        (label::RELEASE, "7".to_owned()),
        (label::REPLACES, "who was before".to_owned()),
        (label::FINGERPRINT, container.name().to_owned()),
    ]
}

fn as_it_is(container: &Inspected, images: Images<'_>, given: &Given, api: ApiVersion) {
    let _ = (
        single_instance_reasons(container),
        dependencies(container),
        swarm_network(container),
    );
    match made(container, images, given, api) {
        Ok(made) => carried::check(container.document(), images, given, &made, api),
        Err(obstacle) => assert!(!obstacle.to_string().is_empty()),
    }
}

fn compared(container: &Inspected, recreated: Option<Inspected>, images: Images<'_>) {
    for other in [Some(container.clone()), recreated].into_iter().flatten() {
        let found = differences(container, &other, images);
        assert!(found == differences(container, &other, images));
        let verified = verify(container, &other, images);
        assert!(verified == verify(container, &other, images));
        for difference in found.into_iter().chain(verified.unwrap_or_default()) {
            assert_secrets_are_not_shown(&difference.to_string(), difference.path());
        }
    }
}

/// Values that may hold a token are shown only as numbers.
fn assert_secrets_are_not_shown(text: &str, path: &str) {
    let values = text.strip_prefix(path).unwrap_or(text);
    let may_hold_tokens = ["/Config/Env/", "/Config/Labels/", "/HostConfig/LogConfig"];
    if may_hold_tokens.iter().any(|prefix| path.starts_with(prefix)) {
        assert!(!values.contains('"'), "a value is shown: {text}");
    }
}

fn object<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    value.pointer(pointer).and_then(Value::as_object)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

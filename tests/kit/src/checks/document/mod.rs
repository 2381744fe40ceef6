//! What holds of the document functions whatever they are given.
//!
//! An input is one JSON object: `container`, what inspect shows; `old` and `new`, the images; `recreated`, if there is
//! one, what inspect shows of a container that replaced it; `api`, the minor number of the engine's API version.

mod carried;
mod lived;
mod owner;
mod paths;
mod shown;

use delegate_upgrader::container::ApiVersion;
use delegate_upgrader::container::label;
use delegate_upgrader::document::{
    CreateRequest, Images, Obstacle, dependencies, differences, single_instance_reasons, successor,
};
use serde_json::{Map, Value};

const REFERENCE: &str = "harness/delegate:2";

/// Checks one input; what is no JSON object is passed over.
pub fn check(data: &[u8]) {
    let Ok(Value::Object(input)) = serde_json::from_slice(data) else {
        return;
    };
    let part = |name| input.get(name).cloned().unwrap_or_default();
    let minor = input.get("api").and_then(Value::as_u64).unwrap_or(51);
    let api = ApiVersion::new(1, u16::try_from(minor).unwrap_or(u16::MAX));
    let (container, old, new) = (part("container"), part("old"), part("new"));
    let images = Images { old: &old, new: &new };
    as_it_is(&container, images, api);
    compared(&container, &part("recreated"), images);
    lived::check(&container, images, api);
}

/// The successor, made twice, with labels of ours on it.
fn made(container: &Value, images: Images<'_>, api: ApiVersion) -> Result<CreateRequest, Obstacle> {
    let labels = labels();
    let first = successor(container, images, REFERENCE, &labels, api);
    let second = successor(container, images, REFERENCE, &labels, api);
    assert!(first == second, "two answers to one question");
    first
}

fn labels() -> [(&'static str, String); 2] {
    [
        (label::RELEASE, "7".to_owned()),
        (label::REPLACES, "who was before".to_owned()),
    ]
}

fn as_it_is(container: &Value, images: Images<'_>, api: ApiVersion) {
    let _ = (single_instance_reasons(container), dependencies(container));
    match made(container, images, api) {
        Ok(made) => carried::check(container, images, &made, api),
        Err(obstacle) => assert!(!obstacle.to_string().is_empty()),
    }
}

fn compared(container: &Value, recreated: &Value, images: Images<'_>) {
    for other in [container, recreated] {
        let found = differences(container, other, images);
        assert!(found == differences(container, other, images));
        for difference in found {
            assert_secrets_are_not_shown(&difference.to_string(), difference.path());
        }
    }
}

/// Only numbers are shown of what may hold a token.
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

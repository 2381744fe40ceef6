//! Checks the types of the parts of documents that the rules read.

use serde_json::Value;

use super::{Images, Obstacle};
use crate::container::Inspected;
use crate::container::json::has_configuration;

/// The type of a part of a document. It may be `null` or missing unless a value is [needed](Shape::Needed).
#[derive(Clone, Copy)]
enum Shape {
    Needed,
    NeededList,
    Object,
    Array,
    Strings,
    Text,
}

impl Shape {
    fn fits(self, value: Option<&Value>) -> bool {
        let value = value.filter(|value| !value.is_null());
        match self {
            Self::Needed => value.is_some_and(Value::is_object),
            Self::NeededList => value.is_some_and(Value::is_array),
            Self::Object => value.is_none_or(Value::is_object),
            Self::Array => value.is_none_or(Value::is_array),
            Self::Text => value.is_none_or(Value::is_string),
            Self::Strings => value.is_none_or(|value| {
                value
                    .as_array()
                    .is_some_and(|entries| entries.iter().all(Value::is_string))
            }),
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Needed | Self::Object => "an object",
            Self::Array | Self::NeededList => "a list",
            Self::Text => "a string",
            Self::Strings => "a list of strings",
        }
    }
}

const CONTAINER: [(&str, Shape); 10] = [
    ("/Config", Shape::Needed),
    ("/Config/Hostname", Shape::Text),
    ("/Config/MacAddress", Shape::Text),
    ("/HostConfig", Shape::Needed),
    ("/HostConfig/NetworkMode", Shape::Text),
    ("/HostConfig/PortBindings", Shape::Object),
    ("/HostConfig/Binds", Shape::Strings),
    ("/HostConfig/Mounts", Shape::Array),
    ("/NetworkSettings/Networks", Shape::Needed),
    ("/Mounts", Shape::NeededList),
];

const IMAGE: [(&str, Shape); 1] = [("", Shape::Needed)];

/// The parts that containers and images have.
const BOTH: [(&str, Shape); 7] = [
    ("/Config/Env", Shape::Strings),
    ("/Config/Labels", Shape::Object),
    ("/Config/ExposedPorts", Shape::Object),
    ("/Config/Volumes", Shape::Object),
    ("/Config/Entrypoint", Shape::Strings),
    ("/Config/Cmd", Shape::Strings),
    ("/Config/Healthcheck", Shape::Object),
];

/// Refuses documents in which a part that a rule reads does not have the type that the engine's API promises.
pub(super) fn check(container: &Inspected, images: Images<'_>) -> Result<(), Obstacle> {
    for (document, value, shapes) in [
        ("container", container.document(), &CONTAINER[..]),
        ("old image", images.old, &IMAGE),
        ("new image", images.new, &IMAGE),
    ] {
        let mut shapes = shapes.iter().chain(&BOTH);
        if let Some((path, shape)) = shapes.find(|(path, shape)| !shape.fits(value.pointer(path))) {
            return Err(Obstacle::Malformed {
                document,
                path,
                expected: shape.describe(),
            });
        }
    }
    // Unknown defaults differ from no defaults.
    for (which, image) in [("old image", images.old), ("new image", images.new)] {
        if !has_configuration(image) {
            return Err(Obstacle::ImageUnknown { which });
        }
    }
    Ok(())
}

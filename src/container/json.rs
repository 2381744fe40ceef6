//! Reads raw JSON by pointer. A value of the wrong type counts as missing.

use serde_json::{Map, Value};

/// Returns the value at a JSON pointer without escapes. Unlike `Value::pointer`, it does not copy the keys.
pub(super) fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer
        .split('/')
        .skip(1)
        .try_fold(value, |value, key| value.get(key))
}

/// Returns the string at a JSON pointer, or an empty one if there is none.
pub(crate) fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the object at a JSON pointer.
pub(crate) fn object_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    at(value, pointer).and_then(Value::as_object)
}

/// Returns the list at a JSON pointer, or an empty one if there is none.
pub(crate) fn list_at<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    at(value, pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Whether the engine shows the image's configuration. With the containerd store (28.5 to 29), it or the operating system may
/// be missing: if another image has one of the layers in a different compression, the configuration is never pulled.
pub(crate) fn has_configuration(image: &Value) -> bool {
    image.get("Config").is_some_and(Value::is_object) && !text_at(image, "/Os").is_empty()
}

//! Reading raw JSON by pointer. A value that is missing and one of another type are both "nothing".

use serde_json::{Map, Value};

/// The value at a JSON pointer whose keys have no escapes: `Value::pointer` copies each key to look for them.
pub(super) fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer
        .split('/')
        .skip(1)
        .try_fold(value, |value, key| value.get(key))
}

/// The string at a JSON pointer; empty if there is none.
pub(crate) fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The object at a JSON pointer.
pub(crate) fn object_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    at(value, pointer).and_then(Value::as_object)
}

/// The list at a JSON pointer; empty if there is none.
pub(crate) fn list_at<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    at(value, pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Whether the engine shows the image's configuration. The containerd store has lost it, or cannot find it, if there is none
/// or no operating system (28.5 to 29): another image has a layer of it in another compression, so that it was never pulled.
pub(crate) fn has_configuration(image: &Value) -> bool {
    image.get("Config").is_some_and(Value::is_object) && !text_at(image, "/Os").is_empty()
}

//! Reading raw JSON by pointer. A value that is missing and one of another type are both "nothing".

use serde_json::{Map, Value};

/// The string at a JSON pointer; empty where there is none.
pub(crate) fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The object at a JSON pointer.
pub(crate) fn object_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    value.pointer(pointer).and_then(Value::as_object)
}

/// The list at a JSON pointer; empty where there is none.
pub(crate) fn list_at<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

//! The values that an engine treats as "not set".

use serde_json::Value;

/// Whether Go, and so the engine, treats the value as "not set": null, an empty string, list or object, zero, false.
pub(super) fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::Bool(true)) => false,
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(entries)) => entries.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
    }
}

/// Whether two values mean the same to the engine, which has several values for "not set".
pub(super) fn same_or_unset(a: Option<&Value>, b: Option<&Value>) -> bool {
    a == b || (is_unset(a) && is_unset(b))
}

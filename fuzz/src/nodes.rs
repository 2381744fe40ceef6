//! The places of a document, counted from its root.

use serde_json::Value;

pub(crate) fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(entries) => entries.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0_usize,
    }
}

pub(crate) fn at(value: &Value, index: usize) -> &Value {
    let mut rest = index;
    find(value, &mut rest).unwrap_or(value)
}

fn find<'a>(value: &'a Value, rest: &mut usize) -> Option<&'a Value> {
    if *rest == 0 {
        return Some(value);
    }
    *rest -= 1;
    match value {
        Value::Array(entries) => entries.iter().find_map(|entry| find(entry, rest)),
        Value::Object(fields) => fields.values().find_map(|field| find(field, rest)),
        _ => None,
    }
}

pub(crate) fn at_mut(value: &mut Value, index: usize) -> Option<&mut Value> {
    let mut rest = index;
    find_mut(value, &mut rest)
}

fn find_mut<'a>(value: &'a mut Value, rest: &mut usize) -> Option<&'a mut Value> {
    if *rest == 0 {
        return Some(value);
    }
    *rest -= 1;
    match value {
        Value::Array(entries) => entries.iter_mut().find_map(|entry| find_mut(entry, rest)),
        Value::Object(fields) => fields.values_mut().find_map(|field| find_mut(field, rest)),
        _ => None,
    }
}

//! One change to a document.

use libfuzzer_sys::fuzzer_mutate;
use serde_json::Value;

use crate::nodes;
use crate::random::Random;
use crate::words;

pub(crate) fn edit(document: &mut Value, random: &mut Random) {
    if random.one_in(5) {
        return meet(document, random);
    }
    let count = nodes::count(document);
    let other = nodes::at(document, random.below(count)).clone();
    let Some(place) = nodes::at_mut(document, random.below(count)) else {
        return;
    };
    let value = some_value(other, random);
    match place {
        Value::Object(fields) if !random.one_in(6) => {
            let known: Vec<_> = fields.keys().cloned().collect();
            if !known.is_empty() && random.one_in(2) {
                fields.remove(random.of(&known));
            } else if !known.is_empty() && random.one_in(3) {
                fields.insert(random.of(&known).clone(), value);
            } else {
                fields.insert((*random.of(&words::KEYS)).to_owned(), value);
            }
        }
        Value::Array(entries) if !random.one_in(6) => {
            let (one, two) = (random.below(entries.len()), random.below(entries.len()));
            match random.below(4) {
                0 if !entries.is_empty() => {
                    entries.remove(one);
                }
                1 if !entries.is_empty() => entries.push(entries[one].clone()),
                2 if !entries.is_empty() => entries.swap(one, two),
                _ => entries.insert(one, value),
            }
        }
        Value::String(text) if !random.one_in(4) => *text = reworded(text, random),
        place => *place = value,
    }
}

/// Owner and images say the same of something: that is where most rules are.
fn meet(document: &mut Value, random: &mut Random) {
    const PARTS: [&str; 4] = ["container", "old", "new", "recreated"];
    let (from, to) = (*random.of(&PARTS), *random.of(&PARTS));
    let Some(Value::Object(fields)) = document.pointer(&format!("/{from}/Config")) else {
        return;
    };
    let names: Vec<_> = fields.keys().cloned().collect();
    if names.is_empty() {
        return;
    }
    let name = random.of(&names);
    let mut value = fields[name].clone();
    if random.one_in(3) {
        edit_within(&mut value, random);
    }
    if let Some(Value::Object(fields)) = document.pointer_mut(&format!("/{to}/Config")) {
        fields.insert(name.clone(), value);
    }
}

fn edit_within(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(fields) => {
            let names: Vec<_> = fields.keys().cloned().collect();
            if !names.is_empty() {
                fields.remove(random.of(&names));
            }
        }
        Value::Array(entries) if !entries.is_empty() => {
            entries.remove(random.below(entries.len()));
        }
        Value::String(text) => *text = reworded(text, random),
        _ => {}
    }
}

/// A part of another document in the place of the same part.
pub(crate) fn graft(document: &mut Value, other: &Value, random: &mut Random) {
    let mut path = String::new();
    let mut at = other;
    for _ in 0..=random.below(4) {
        let Value::Object(fields) = at else { break };
        let names: Vec<_> = fields.keys().collect();
        if names.is_empty() {
            break;
        }
        let name = *random.of(&names);
        path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        at = &fields[name];
    }
    let (parent, name) = path.rsplit_once('/').unwrap_or_default();
    if let Some(Value::Object(fields)) = document.pointer_mut(parent) {
        fields.insert(name.replace("~1", "/").replace("~0", "~"), at.clone());
    }
}

fn some_value(other: Value, random: &mut Random) -> Value {
    if random.one_in(3) {
        other
    } else {
        let text = *random.of(&words::VALUES);
        serde_json::from_str(text).unwrap_or_default()
    }
}

fn reworded(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    match random.below(4) {
        0 => {
            bytes.truncate(random.below(bytes.len()));
        }
        1 => bytes.extend_from_slice(random.of(&words::KEYS).as_bytes()),
        2 => return random.of(&["", "a", "/data", "111111111111", "host"]).to_string(),
        _ => {
            let size = bytes.len();
            bytes.resize(size + 16, 0);
            let size = fuzzer_mutate(&mut bytes, size, size + 16);
            bytes.truncate(size);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

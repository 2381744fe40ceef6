//! A JSON schema of `docs/reference` must describe the program's output.
//!
//! The check knows the few keywords that these schemas use, and fails at any other. Unlike a validator, it also fails at a
//! field that the schema does not list: readers must accept new fields, but the pages must list them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// Asserts that each value matches the schema, and that fields and properties of the schema are the same.
pub fn describes(name: &str, values: &[Value]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/reference/{name}.schema.json"));
    let schema: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let mut walk = Walk {
        root: &schema,
        seen: BTreeSet::new(),
        problems: Vec::new(),
    };
    for value in values {
        walk.check(&schema, "", "", value);
    }
    let mut listed = BTreeSet::new();
    properties(&schema, "", &mut listed);
    for missing in listed.difference(&walk.seen) {
        walk.problems.push(format!("{missing}: in no value"));
    }
    assert!(walk.problems.is_empty(), "{name}: {:#?}", walk.problems);
}

/// Collects the properties of the schema in the form `delegate.tasks`.
fn properties(schema: &Value, of: &str, found: &mut BTreeSet<String>) {
    for (name, property) in object(schema, "properties") {
        found.insert(format!("{of}.{name}"));
        assert!(
            property["description"].is_string(),
            "{of}.{name} has no description"
        );
    }
    for (name, definition) in object(schema, "$defs") {
        properties(definition, name, found);
    }
}

fn object<'a>(schema: &'a Value, keyword: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema
        .get(keyword)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

struct Walk<'a> {
    root: &'a Value,
    seen: BTreeSet<String>,
    problems: Vec<String>,
}

impl Walk<'_> {
    /// `at` is the path of the value; `of` is the definition whose properties it has.
    fn check(&mut self, schema: &Value, of: &str, at: &str, value: &Value) {
        for (keyword, given) in schema.as_object().expect("a schema") {
            let is_right = match keyword.as_str() {
                "$schema" | "$id" | "$defs" | "title" | "description" => true,
                "$ref" => {
                    let name = given.as_str().and_then(|to| to.strip_prefix("#/$defs/")).unwrap();
                    let definition = &self.root["$defs"][name];
                    self.check(definition, name, at, value);
                    true
                }
                "type" => match given.as_str().unwrap() {
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "number" => value.is_number(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    other => panic!("unknown type {other}"),
                },
                "enum" => given.as_array().unwrap().contains(value),
                "minimum" => value.as_f64() >= given.as_f64(),
                "format" => value.as_str().is_some_and(|text| match given.as_str() {
                    Some("date-time") => text.len() == 20 && text.ends_with('Z'),
                    Some("date") => text.len() == 10,
                    other => panic!("unknown format {other:?}"),
                }),
                "items" => {
                    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(given, of, &format!("{at}[{place}]"), item);
                    }
                    true
                }
                "required" => given.as_array().unwrap().iter().all(|name| {
                    let name = name.as_str().unwrap();
                    assert!(
                        schema["properties"].get(name).is_some(),
                        "{of}.{name} is required"
                    );
                    value.get(name).is_some()
                }),
                "additionalProperties" => {
                    for (name, value) in fields(value) {
                        self.check(given, of, &format!("{at}.{name}"), value);
                    }
                    true
                }
                "properties" => {
                    for (name, value) in fields(value) {
                        let at = format!("{at}.{name}");
                        match given.get(name) {
                            Some(property) => self.check(property, of, &at, value),
                            None => self.problems.push(format!("{at}: not in the schema")),
                        }
                        self.seen.insert(format!("{of}.{name}"));
                    }
                    true
                }
                other => panic!("unknown keyword {other}"),
            };
            if !is_right {
                self.problems
                    .push(format!("{at}: {keyword} {given}, not {value}"));
            }
        }
    }
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

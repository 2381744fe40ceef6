//! The configuration file of the documented manifest and of the chart, `/etc/config/config.yaml`, as variables of the
//! environment. Pure.
//!
//! What is read is the text of each value, whatever YAML takes it for: the chart writes all of them without quotes, and a
//! password may look like a number.

use std::collections::BTreeMap;
use std::fmt;

use granit_parser::{Event, Parser, ScalarStyle};

use crate::text::quoted;

/// Where the manifest and the chart mount it.
pub const PATH: &str = "/etc/config/config.yaml";
/// Where the chart mounts further authorities: any files.
pub const CA_BUNDLE: &str = "/ca-bundle";

/// A key, and what becomes of its value.
struct Key(&'static str, Use);

enum Use {
    /// It is the value of this variable.
    Variable(&'static str),
    /// It is a setting of the cluster.
    Own,
}

use Use::{Own, Variable};

/// Every key that a version of the chart or of the documented manifest has. Charts 1.0.27 to 1.0.31 write the proxy's keys into
/// `delegateConfig`, all others to the top.
const KEYS: [Key; 21] = [
    Key("mode", Own),
    Key("dryRun", Own),
    Key("namespace", Own),
    Key("containerName", Own),
    Key("proxyManager", Own),
    Key("workloadName", Variable("UPGRADER_WORKLOAD_NAME")),
    Key("registryMirror", Variable("REGISTRY_MIRROR")),
    Key("delegateConfig.accountId", Variable("ACCOUNT_ID")),
    Key("delegateConfig.managerHost", Variable("MANAGER_HOST_AND_PORT")),
    Key("clientCertificateFilePath", Variable("CLIENT_CERT")),
    Key("clientCertificateKeyFilePath", Variable("CLIENT_KEY")),
    Key("proxyScheme", Variable("PROXY_SCHEME")),
    Key("proxyHost", Variable("PROXY_HOST")),
    Key("proxyPort", Variable("PROXY_PORT")),
    Key("proxyUser", Variable("PROXY_USER")),
    Key("proxyPassword", Variable("PROXY_PASSWORD")),
    Key("delegateConfig.proxyScheme", Variable("PROXY_SCHEME")),
    Key("delegateConfig.proxyHost", Variable("PROXY_HOST")),
    Key("delegateConfig.proxyPort", Variable("PROXY_PORT")),
    Key("delegateConfig.proxyUser", Variable("PROXY_USER")),
    Key("delegateConfig.proxyPassword", Variable("PROXY_PASSWORD")),
];

fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
}

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its key, as a path.
    pub key: String,
    /// Its line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.key)
    }
}

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// The variables that it sets.
    pub variables: Vec<(&'static str, String)>,
    /// Where each of them stands.
    pub places: BTreeMap<&'static str, Place>,
    /// `namespace`.
    pub namespace: Option<String>,
    /// `containerName`.
    pub container: Option<String>,
    /// `dryRun`.
    pub dry_run: bool,
    /// Keys and values that are allowed but look odd; each line begins with its place.
    pub warnings: Vec<String>,
    /// The errors; each line begins with its place.
    pub problems: Vec<String>,
}

/// A value of a file.
#[derive(Debug)]
struct Entry {
    place: Place,
    value: Value,
}

#[derive(Debug, PartialEq)]
enum Value {
    Text(String),
    Nothing,
    /// Neither text nor a group of keys.
    Other(&'static str),
}

/// The key of `config.yaml` that sets a variable, as the chart of today writes it.
pub fn key_of(variable: &str) -> Option<&'static str> {
    keys().find_map(|Key(key, meaning)| match meaning {
        Variable(name) if *name == variable => Some(*key),
        _ => None,
    })
}

/// Reads a file.
pub fn parse(text: &str) -> File {
    let mut file = File::default();
    let entries = match entries(text) {
        Ok(entries) => entries,
        Err(problem) => {
            file.problems.push(problem);
            return file;
        }
    };
    let mut seen = BTreeMap::new();
    let mut proxies_manager = true;
    for Entry { place, value } in entries {
        if let Some(first) = seen.insert(place.key.clone(), place.line) {
            file.problems
                .push(format!("{place}: given in line {first} already"));
            continue;
        }
        let Some(Key(key, meaning)) = keys().find(|Key(key, _)| *key == place.key) else {
            file.warnings
                .push(format!("{place}: unknown key, not used{}", meant(&place.key)));
            continue;
        };
        let text = match value {
            Value::Text(text) => text,
            Value::Nothing => continue,
            Value::Other(what) => {
                file.problems.push(format!("{place}: {what}; expected a text"));
                continue;
            }
        };
        match (*key, meaning) {
            ("mode", _) if !text.eq_ignore_ascii_case("delegate") => {
                let text = quoted(&text, 40);
                file.warnings
                    .push(format!("{place}: {text} is not used; Delegate is the only mode"));
            }
            ("dryRun", _) => file.dry_run = flag(&mut file.problems, &place, &text).unwrap_or(true),
            ("proxyManager", _) => {
                proxies_manager = flag(&mut file.problems, &place, &text).unwrap_or(true);
            }
            ("namespace", _) => file.namespace = Some(text),
            ("containerName", _) => file.container = Some(text),
            (_, Variable(variable)) => file.set(variable, place, text),
            (_, Own) => {}
        }
    }
    if !proxies_manager {
        file.variables.retain(|(name, _)| !name.starts_with("PROXY_"));
    }
    file
}

impl File {
    fn set(&mut self, variable: &'static str, place: Place, text: String) {
        if let Some(other) = self.places.get(variable) {
            self.warnings.push(format!(
                "{place}: not used, since {} is set in line {}",
                other.key, other.line
            ));
            return;
        }
        self.places.insert(variable, place);
        self.variables.push((variable, text));
    }
}

fn flag(problems: &mut Vec<String>, place: &Place, text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => {
            problems.push(format!("{place}: {}; expected true or false", quoted(text, 40)));
            None
        }
    }
}

/// The key that this one likely misspells, or that it is in the wrong place.
fn meant(path: &str) -> String {
    let name = path.rsplit('.').next().unwrap_or(path);
    let nearest = keys()
        .map(|Key(key, _)| {
            (
                strsim::osa_distance(key.rsplit('.').next().unwrap_or(key), name),
                *key,
            )
        })
        .filter(|(slips, _)| *slips <= 2)
        .min();
    nearest.map_or_else(String::new, |(_, key)| format!("; did you mean {key}?"))
}

/// All values, with their places.
///
/// # Errors
/// It is no YAML, or not a mapping; with the line.
fn entries(text: &str) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    // The path of each mapping that is open, and the key whose value follows.
    let mut open: Vec<(String, Option<Place>)> = Vec::new();
    let mut skipped = 0_usize;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let marker = error.marker();
            format!("line {}: {error}", marker.line())
        })?;
        let line = span.start.line();
        if skipped > 0 {
            match event {
                Event::SequenceStart(..) | Event::MappingStart(..) => skipped += 1,
                Event::SequenceEnd | Event::MappingEnd => skipped -= 1,
                _ => {}
            }
            continue;
        }
        match event {
            Event::MappingStart(..) => {
                let path = match open.last_mut() {
                    Some((_, key)) => key.take().map(|place| place.key).unwrap_or_default(),
                    None => String::new(),
                };
                open.push((path, None));
            }
            Event::MappingEnd => {
                open.pop();
            }
            Event::Scalar(text, style, ..) => match open.last_mut() {
                Some((path, key @ None)) => {
                    let name = if path.is_empty() {
                        text.into_owned()
                    } else {
                        format!("{path}.{text}")
                    };
                    *key = Some(Place { key: name, line });
                }
                Some((_, key)) => {
                    let is_nothing = style == ScalarStyle::Plain
                        && ["", "~", "null", "Null", "NULL"].contains(&text.as_ref());
                    let value = if is_nothing || text.trim().is_empty() {
                        Value::Nothing
                    } else {
                        Value::Text(text.into_owned())
                    };
                    entries.extend(key.take().map(|place| Entry { place, value }));
                }
                None if text.is_empty() => {}
                None => return Err(format!("line {line}: not a mapping of keys to values")),
            },
            Event::SequenceStart(..) | Event::Alias(..) => {
                let is_list = matches!(event, Event::SequenceStart(..));
                let what = if is_list { "a list" } else { "an alias" };
                let Some((_, key)) = open.last_mut() else {
                    return Err(format!("line {line}: not a mapping of keys to values"));
                };
                entries.extend(key.take().map(|place| Entry {
                    place,
                    value: Value::Other(what),
                }));
                skipped = usize::from(is_list);
            }
            _ => {}
        }
    }
    Ok(entries)
}

//! The configuration file of the documented manifest and of the chart, `/etc/config/config.yaml`, as variables of the
//! environment. Pure.
//!
//! It reads the text of each value, whatever YAML takes it for: the chart writes all of them without quotes, and a
//! password may look like a number.

use std::collections::BTreeMap;
use std::fmt;

use granit_parser::{Event, Parser, ScalarStyle};

use crate::text::{quoted, yes_or_no};

/// Where the manifest and the chart mount it.
pub const PATH: &str = "/etc/config/config.yaml";
/// Where the chart mounts further authorities: any files.
pub const CA_BUNDLE: &str = "/ca-bundle";

/// Every key that a version of the chart or of the documented manifest has. Charts 1.0.27 to 1.0.31 write the proxy's keys into
/// `delegateConfig`, all others to the top.
/// Each has its variable, or none if it is a setting of the cluster.
const KEYS: [(&str, Option<&str>); 21] = [
    ("mode", None),
    ("dryRun", None),
    ("namespace", None),
    ("containerName", None),
    ("proxyManager", None),
    ("workloadName", Some("UPGRADER_WORKLOAD_NAME")),
    ("registryMirror", Some("REGISTRY_MIRROR")),
    ("delegateConfig.accountId", Some("ACCOUNT_ID")),
    ("delegateConfig.managerHost", Some("MANAGER_HOST_AND_PORT")),
    ("clientCertificateFilePath", Some("CLIENT_CERT")),
    ("clientCertificateKeyFilePath", Some("CLIENT_KEY")),
    ("proxyScheme", Some("PROXY_SCHEME")),
    ("proxyHost", Some("PROXY_HOST")),
    ("proxyPort", Some("PROXY_PORT")),
    ("proxyUser", Some("PROXY_USER")),
    ("proxyPassword", Some("PROXY_PASSWORD")),
    ("delegateConfig.proxyScheme", Some("PROXY_SCHEME")),
    ("delegateConfig.proxyHost", Some("PROXY_HOST")),
    ("delegateConfig.proxyPort", Some("PROXY_PORT")),
    ("delegateConfig.proxyUser", Some("PROXY_USER")),
    ("delegateConfig.proxyPassword", Some("PROXY_PASSWORD")),
];

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

/// The text of a value, empty if there is none; or what the value is, if that is neither text nor a group of keys.
type Value = Result<String, &'static str>;

/// The key of `config.yaml` that sets a variable, as the chart of today writes it.
pub fn key_of(variable: &str) -> Option<&'static str> {
    let mut keys = KEYS.into_iter();
    keys.find_map(|(key, name)| (name == Some(variable)).then_some(key))
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
    for (place, value) in entries {
        if let Some(first) = seen.insert(place.key.clone(), place.line) {
            file.problems
                .push(format!("{place}: given in line {first} already"));
            continue;
        }
        let Some((key, variable)) = KEYS.into_iter().find(|(key, _)| *key == place.key) else {
            file.warnings
                .push(format!("{place}: unknown key, not used{}", meant(&place.key)));
            continue;
        };
        let text = match value {
            Ok(text) if text.is_empty() => continue,
            Ok(text) => text,
            Err(what) => {
                file.problems.push(format!("{place}: {what}; expected a text"));
                continue;
            }
        };
        match (key, variable) {
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
            (_, Some(variable)) => file.set(variable, place, text),
            (_, None) => {}
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
    let flag = yes_or_no(text);
    if flag.is_none() {
        problems.push(format!("{place}: {}; expected true or false", quoted(text, 40)));
    }
    flag
}

/// The key that this one likely misspells, or that it is in the wrong place.
fn meant(path: &str) -> String {
    let name = path.rsplit('.').next().unwrap_or(path);
    let slips = |key: &str| strsim::osa_distance(key.rsplit('.').next().unwrap_or(key), name);
    let known = KEYS.into_iter().map(|(key, _)| (slips(key), key));
    let nearest = known.filter(|(slips, _)| *slips <= 2).min();
    nearest.map_or_else(String::new, |(_, key)| format!("; did you mean {key}?"))
}

/// All values, with their places.
///
/// # Errors
/// It is not YAML, or not a mapping; with the line.
fn entries(text: &str) -> Result<Vec<(Place, Value)>, String> {
    let mut entries = Vec::new();
    // The path of each mapping that is open, and the key whose value follows.
    let mut open: Vec<(String, Option<Place>)> = Vec::new();
    // How many lists and mappings are open within a list.
    let mut skipped = 0_usize;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| format!("line {}: {error}", error.marker().line()))?;
        let line = span.start.line();
        let not_a_mapping = || format!("line {line}: not a mapping of keys to values");
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) if skipped > 0 => skipped += 1,
            Event::SequenceEnd | Event::MappingEnd if skipped > 0 => skipped -= 1,
            _ if skipped > 0 => {}
            Event::MappingStart(..) => {
                let key = open.last_mut().and_then(|(_, key)| key.take());
                open.push((key.map(|place| place.key + ".").unwrap_or_default(), None));
            }
            Event::MappingEnd => {
                open.pop();
            }
            Event::Scalar(text, style, ..) => match open.last_mut() {
                Some((path, key @ None)) => {
                    let key_of_value = format!("{path}{text}");
                    *key = Some(Place {
                        key: key_of_value,
                        line,
                    });
                }
                Some((_, key)) => {
                    let is_null =
                        style == ScalarStyle::Plain && ["~", "null", "Null", "NULL"].contains(&&*text);
                    let is_nothing = is_null || text.trim().is_empty();
                    let text = if is_nothing {
                        String::new()
                    } else {
                        text.into_owned()
                    };
                    entries.extend(key.take().map(|place| (place, Ok(text))));
                }
                None if text.is_empty() => {}
                None => return Err(not_a_mapping()),
            },
            Event::SequenceStart(..) | Event::Alias(..) => {
                let is_list = matches!(event, Event::SequenceStart(..));
                let what = if is_list { "a list" } else { "an alias" };
                let (_, key) = open.last_mut().ok_or_else(not_a_mapping)?;
                entries.extend(key.take().map(|place| (place, Err(what))));
                skipped = usize::from(is_list);
            }
            _ => {}
        }
    }
    Ok(entries)
}

//! Reads the configuration file of the documented manifest and of the chart, `/etc/config/config.yaml`, as environment
//! variables. Pure.
//!
//! Takes the text of each value, whatever its YAML type: the chart writes no quotes, and a password may look like a number.

use std::collections::BTreeMap;
use std::fmt;

use granit_parser::{Event, Parser, ScalarStyle};

use crate::text::{quoted, yes_or_no};

/// The path at which the manifest and the chart mount the file.
pub const PATH: &str = "/etc/config/config.yaml";
/// The directory in which the chart mounts further CA certificates, in any files.
pub const CA_BUNDLE: &str = "/ca-bundle";

/// Every key in any version of the chart or of the documented manifest, with its variable, or none if it is a setting of the
/// cluster. Charts 1.0.27 to 1.0.31 write the proxy's keys below `delegateConfig`, all other versions write them at the top
/// level.
const KEYS: [(&str, Option<&str>); 21] = [
    ("mode", None),
    ("dryRun", None),
    ("namespace", None),
    ("containerName", None),
    ("workloadName", Some("UPGRADER_WORKLOAD_NAME")),
    ("registryMirror", Some("REGISTRY_MIRROR")),
    ("delegateConfig.accountId", Some("ACCOUNT_ID")),
    ("delegateConfig.managerHost", Some("MANAGER_HOST_AND_PORT")),
    ("clientCertificateFilePath", Some("CLIENT_CERT")),
    ("clientCertificateKeyFilePath", Some("CLIENT_KEY")),
    ("proxyManager", Some("PROXY_MANAGER")),
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

/// The position of a value in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The key of the value, as a path.
    pub key: String,
    /// The line of the value, counted from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.key)
    }
}

/// The parsed contents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// The variables that the file sets, each with its position.
    pub variables: BTreeMap<&'static str, (Place, String)>,
    /// The value of `namespace`.
    pub namespace: Option<String>,
    /// The value of `containerName`.
    pub container: Option<String>,
    /// The value of `dryRun`.
    pub dry_run: bool,
    /// Warnings about keys and values that are permitted but unusual. Each line starts with a position.
    pub warnings: Vec<String>,
    /// The errors. Each line starts with a position.
    pub problems: Vec<String>,
}

/// The text of a value, empty if there is none, or the kind of a value that is neither text nor a group of keys.
type Value = Result<String, &'static str>;

/// Returns the key of `config.yaml` that sets a variable, in the form of the current chart.
pub fn key_of(variable: &str) -> Option<&'static str> {
    let mut keys = KEYS.into_iter();
    keys.find_map(|(key, name)| (name == Some(variable)).then_some(key))
}

/// Parses a file.
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
                file.problems.push(format!("{place}: {what}; expected a string"));
                continue;
            }
        };
        match (key, variable) {
            ("mode", _) if !text.eq_ignore_ascii_case("delegate") => {
                let text = quoted(&text, 40);
                file.warnings
                    .push(format!("{place}: {text} is not used; Delegate is the only mode"));
            }
            ("dryRun", _) => {
                let flag = yes_or_no(&text);
                file.dry_run = flag.unwrap_or(true);
                let problem = || format!("{place}: {}; expected true or false", quoted(&text, 40));
                file.problems.extend(flag.is_none().then(problem));
            }
            ("namespace", _) => file.namespace = Some(text),
            ("containerName", _) => file.container = Some(text),
            (_, Some(variable)) => file.set(variable, place, text),
            (_, None) => {}
        }
    }
    file
}

impl File {
    fn set(&mut self, variable: &'static str, place: Place, text: String) {
        if let Some((other, _)) = self.variables.get(variable) {
            self.warnings.push(format!(
                "{place}: not used, since {} is set in line {}",
                other.key, other.line
            ));
            return;
        }
        self.variables.insert(variable, (place, text));
    }
}

/// Returns a suggestion for an unknown key that is likely misspelt or in the wrong place.
fn meant(path: &str) -> String {
    let name = path.rsplit('.').next().unwrap_or(path);
    let slips = |key: &str| strsim::osa_distance(key.rsplit('.').next().unwrap_or(key), name);
    let known = KEYS.into_iter().map(|(key, _)| (slips(key), key));
    let nearest = known.filter(|(slips, _)| *slips <= 2).min();
    nearest.map_or_else(String::new, |(_, key)| format!("; did you mean {key}?"))
}

/// Returns all values with their positions.
///
/// # Errors
/// The text is not YAML or not a mapping. The message names the line.
fn entries(text: &str) -> Result<Vec<(Place, Value)>, String> {
    let mut entries = Vec::new();
    // The path of each open mapping, and the key whose value comes next.
    let mut open: Vec<(String, Option<Place>)> = Vec::new();
    // The number of open lists and mappings inside a list.
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
                    let text = if is_nothing { "" } else { &*text };
                    entries.extend(key.take().map(|place| (place, Ok(text.to_owned()))));
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

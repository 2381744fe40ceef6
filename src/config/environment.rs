//! Reads the [variables](super::variables) of the table from the process's environment, as text.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::problems::Problems;
use super::variables::{Environment, Row, TABLE, Texts, Variable};
use super::{aliases, dotenv, parse};

/// Other programs' variables that look like misspellings of ours.
const FOREIGN: [&str; 2] = ["ALL_PROXY", "FTP_PROXY"];

impl Environment {
    /// Picks our variables out of the environment; empty ones count as unset. Warns about names that look misspelt.
    pub(super) fn read(
        vars: impl IntoIterator<Item = (OsString, OsString)>,
        problems: &mut Problems,
    ) -> Self {
        let vars: Vec<(OsString, OsString)> = vars.into_iter().collect();
        let mut exact = Vec::new();
        let mut lower_case = Vec::new();
        let mut foreign = Vec::new();
        // Of two values for a name the first one counts, so the file comes first.
        let of_file = file(&vars, problems).into_iter().map(|variable| (variable, true));
        for ((name, value), is_of_file) in of_file.chain(vars.into_iter().map(|variable| (variable, false))) {
            let Some(name) = name.to_str() else { continue };
            let Some(Known { row, name: known }) = known(name) else {
                foreign.push((name.to_owned(), value));
                continue;
            };
            let is_value = known == row.name;
            let mut wrong = |why| {
                if is_value {
                    problems.wrong(row, why);
                } else {
                    problems.wrong_file(row, why);
                }
            };
            match value.into_string() {
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) if is_in_quotes(&text) && !is_of_file && !(is_value && row.may_be_quoted()) => {
                    wrong("it is in quotes, which `docker run --env-file` keeps; leave them out");
                }
                Ok(text) if known == name => exact.push((known, text)),
                Ok(text) => lower_case.push((known, text)),
                Err(_) => wrong("bytes that are not UTF-8"),
            }
        }
        // Of a name given twice, the first value counts, as with getenv; envy would refuse the second.
        let mut texts = BTreeMap::new();
        for (name, text) in exact.into_iter().chain(lower_case) {
            texts.entry(name).or_insert(text);
        }

        for (name, value) in foreign {
            let slip = meant(&name).filter(|meant| !texts.contains_key(meant));
            let slip = slip.map(|meant| format!("{name}: unknown variable; did you mean {meant}?"));
            let is_set = |right: &str| texts.keys().any(|known| known.starts_with(right));
            if let Some(hint) = slip.or_else(|| aliases::hint(&name, is_set)) {
                problems.hint(hint);
            }
            let value = value.to_string_lossy();
            let value = value.trim();
            let dry_run = aliases::DRY_RUNS
                .into_iter()
                .find(|known| name.eq_ignore_ascii_case(known));
            if let Some(known) = dry_run.filter(|_| !value.is_empty() && parse::boolean(value) != Ok(false)) {
                let given = "not a setting of this program, which would upgrade".to_owned();
                let accepted = "it unset: `delegate-upgrader plan` shows what a run would do, and DISABLE_AUTO_UPGRADE=true \
                                upgrades nothing";
                problems.push(known, given, accepted);
            }
        }
        let pairs = texts.into_iter().map(|(name, text)| (name.to_owned(), text));
        let texts = envy::from_iter::<_, Texts>(pairs).unwrap_or_else(|error| {
            // This cannot happen: only known names are left, each once, and every field is an optional text.
            problems.hint(format!("environment: {error}"));
            Texts::default()
        });
        texts.into()
    }

    /// The secrets to mask in all output, except short ones: they occur in ordinary words, and masking those would
    /// reveal the secret rather than hide it.
    pub(super) fn secrets(&self) -> Vec<&str> {
        self.variables()
            .filter(|variable| variable.row.file.is_some())
            .filter_map(Variable::get)
            .filter(|secret| secret.len() >= 8)
            .collect()
    }
}

/// Reads the variables in the file that `ENVIRONMENT_FILE` names.
fn file(vars: &[(OsString, OsString)], problems: &mut Problems) -> Vec<(OsString, OsString)> {
    const NAME: &str = "ENVIRONMENT_FILE";
    let path = vars
        .iter()
        .find(|(name, value)| name == NAME && !value.is_empty());
    let Some(((_, path), known)) = path.zip(known(NAME)) else {
        return Vec::new();
    };
    let mut variables = dotenv::read(Path::new(path)).unwrap_or_else(|why| {
        problems.wrong(known.row, why);
        Vec::new()
    });
    variables.retain(|(name, _)| name != NAME);
    let mut commented = variables.iter().filter(|(_, value)| value.contains(" #"));
    let may_be_shown = |name: &String| {
        self::known(name).is_some_and(|Known { row, name }| row.file.is_none_or(|file| file == name))
    };
    if let Some((name, _)) = commented.find(|(name, _)| may_be_shown(name)) {
        problems.hint(format!(
            "{name}: \" #\" and the text after it are part of the value; write a comment on a line of its own"
        ));
    }
    // In the file, the last value of a name counts, but the caller takes the first.
    variables.reverse();
    let variables = variables.into_iter();
    variables
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Whether a value starts and ends with the same quote.
fn is_in_quotes(text: &str) -> bool {
    let text = text.trim();
    let ends = |quote| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote);
    ends('"') || ends('\'')
}

fn rows() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().flat_map(|(_, rows)| *rows)
}

/// The name of a variable in the table, or of the variable that names a file with its value.
struct Known {
    row: &'static Row,
    /// The name as the table spells it.
    name: &'static str,
}

fn all_known() -> impl Iterator<Item = Known> {
    rows().flat_map(|row| {
        let names = [Some(row.name), row.file].into_iter().flatten();
        names.map(move |name| Known { row, name })
    })
}

/// Finds the variable of this name.
fn known(name: &str) -> Option<Known> {
    all_known().find(|known| {
        known.name == name || known.row.is_any_case() && known.name.to_ascii_lowercase() == name
    })
}

/// Finds the variable whose name this one probably misspells.
fn meant(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    if FOREIGN.contains(&upper.as_str()) {
        return None;
    }
    all_known()
        .map(|known| known.name)
        // Short names (`TZ`, `HOME`) resemble too many others.
        .filter(|known| known.len() >= 8)
        .map(|known| (strsim::osa_distance(known, &upper), known))
        .filter(|(slips, known)| *slips <= if known.len() == 8 { 1 } else { 2 })
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_is_stored_in_its_own_field() {
        for known in all_known() {
            let pairs = [(OsString::from(known.name), OsString::from("text"))];
            let environment = Environment::read(pairs, &mut Problems::default());
            let variables = environment.variables();
            let set = variables.filter(|variable| variable.is_set());
            assert_eq!(set.map(Variable::name).collect::<Vec<_>>(), [known.name]);
        }
    }
}

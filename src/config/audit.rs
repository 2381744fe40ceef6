//! `AUDIT_LOG` and when its files rotate.

use std::path::PathBuf;

use super::reader::Reader;
use super::variables::Environment;

/// Where outcomes are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// `AUDIT_LOG`: a file, or `None` for standard output.
    pub path: Option<PathBuf>,
    /// `AUDIT_LOG_MAX_SIZE`, in bytes.
    pub max_size: u64,
    /// `AUDIT_LOG_MAX_FILES`.
    pub max_files: u32,
}

/// Less than one record would fit.
const LEAST: u64 = 10 << 10;

pub(super) fn audit(reader: &mut Reader, env: &Environment) -> Option<AuditSettings> {
    let max_size = reader.read_as(&env.audit_log_max_size, size, |bytes| shown(*bytes));
    let max_files = reader.value(&env.audit_log_max_files, |text| match text.parse() {
        Ok(files @ 1..=1000) => Ok(files),
        _ => Err(String::new()),
    });
    let Some(path) = reader.text(&env.audit_log) else {
        let unused = [&env.audit_log_max_size, &env.audit_log_max_files];
        reader.unused(&unused, ", since AUDIT_LOG is not set");
        return None;
    };
    let why = match &path[..] {
        "-" => None,
        path if path.ends_with('/') => Some("is a directory"),
        path if !path.starts_with('/') => Some("is relative, and the program's directory may be any"),
        _ => None,
    };
    if let Some(why) = why {
        reader.problems.wrong(env.audit_log.row, format!("{path}: {why}"));
    }
    Some(AuditSettings {
        path: (path != "-").then(|| PathBuf::from(path)),
        max_size: max_size?,
        max_files,
    })
}

/// A size as Docker's `--log-opt max-size` takes it: bytes, or with the unit `k`, `m` or `g`.
fn size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches('b').trim_end_matches(['k', 'm', 'g']);
    let shift = match lower.get(digits.len()..).map(|unit| unit.trim_end_matches('b')) {
        Some("") => 0,
        Some("k") => 10,
        Some("m") => 20,
        Some("g") => 30,
        _ => return Err(String::new()),
    };
    let number: u64 = digits.parse().map_err(|_| String::new())?;
    match number.checked_mul(1 << shift) {
        Some(bytes) if bytes < LEAST => Err(format!("less than {}", shown(LEAST))),
        Some(bytes) => Ok(bytes),
        None => Err(String::new()),
    }
}

/// In the largest unit without a fraction.
fn shown(bytes: u64) -> String {
    let units = [(30, "g"), (20, "m"), (10, "k")];
    let fits = units
        .into_iter()
        .find(|(shift, _)| bytes.is_multiple_of(1 << shift));
    fits.map_or_else(
        || bytes.to_string(),
        |(shift, unit)| format!("{}{unit}", bytes >> shift),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_docker_reads_them() {
        for (text, bytes, back) in [
            ("10m", 10 << 20, "10m"),
            ("10MB", 10 << 20, "10m"),
            ("20480", 20 << 10, "20k"),
            ("1g", 1 << 30, "1g"),
            ("10241", 10241, "10241"),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
            assert_eq!(shown(bytes), back, "{text}");
        }
        for text in ["", "m", "10t", "-1", "1.5m", "99999999999g"] {
            assert_eq!(size(text), Err(String::new()), "{text}");
        }
        assert_eq!(size("5k"), Err("less than 10k".to_owned()));
    }
}

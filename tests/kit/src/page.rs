//! Pages of docs/ must say the same as the code.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

/// The tests of one process must rewrite a page one after the other.
static PAGES: Mutex<()> = Mutex::new(());

/// Asserts that a page has the expected text between the marks `<!-- mark -->` and `<!-- /mark -->`. With
/// `UPDATE_DOCS=1` it writes the expected text there instead.
pub fn has(page: &str, mark: &str, expected: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let _alone = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let text = fs::read_to_string(&file).unwrap();
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->\n"));
    let (before, rest) = text
        .split_once(&begin)
        .unwrap_or_else(|| panic!("{page} lacks {begin}"));
    let (listed, after) = rest
        .split_once(&end)
        .unwrap_or_else(|| panic!("{page} lacks {end}"));
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, format!("{before}{begin}{expected}{end}{after}")).unwrap();
    } else {
        assert_eq!(
            listed, expected,
            "{page}: UPDATE_DOCS=1 cargo test writes the expected text"
        );
    }
}

/// The names of the metrics that `docs/reference/metrics.md` lists.
pub fn metrics() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let page = fs::read_to_string(file).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next());
    names
        .filter(|name| name.starts_with("delegate_upgrader_"))
        .map(str::to_owned)
        .collect()
}

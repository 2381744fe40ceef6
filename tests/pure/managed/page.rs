//! docs/development/managed.md has the rows of the code.
//! `UPDATE_DOCS=1 cargo test --test pure managed::page` writes the rows.

use std::fmt::Write as _;

use delegate_upgrader::managed::Row;

#[test]
fn the_page_has_every_row_with_its_sentence() {
    let mut table = String::from("| row | what happens |\n|---|---|\n");
    for (title, rows) in Row::TABLES {
        let _ = writeln!(table, "| | **{title}** |");
        for (row, sentence) in *rows {
            let sentence = sentence.trim();
            assert!(
                sentence.ends_with('.') && sentence.contains(": "),
                "{row}: {sentence}"
            );
            let _ = writeln!(table, "| `{row}` | {sentence} |");
        }
    }
    kit::page::has("docs/development/managed.md", "rows", &table);
}

//! The tables of docs/development/rollout.md, row by row.

mod beside;
mod free;
mod guards;
mod in_service;
mod side_by_side;
mod unhealthy;
mod upgrader;

use std::collections::BTreeSet;

use delegate_upgrader::rollout::Row;

use super::scene::{Scene, check};

/// Asserts the decision in each of these scenes, and that each row of the table decides in one of them.
fn table(title: &str, cases: Vec<(Scene, &str)>) {
    let (_, rows) = Row::TABLES.iter().find(|(name, _)| *name == title).unwrap();
    let reached: BTreeSet<Row> = cases.iter().map(|(scene, _)| scene.decided().row).collect();
    check(cases);
    let missed: Vec<Row> = rows
        .iter()
        .map(|(row, _)| *row)
        .filter(|row| !reached.contains(row))
        .collect();
    assert!(missed.is_empty(), "no scene reaches {missed:?}");
}

/// One test for each table.
#[test]
fn each_table_of_the_page_has_a_test() {
    let tests = [
        include_str!("beside.rs"),
        include_str!("free.rs"),
        include_str!("guards.rs"),
        include_str!("in_service.rs"),
        include_str!("side_by_side.rs"),
        include_str!("unhealthy.rs"),
    ]
    .concat();
    for (title, _) in Row::TABLES {
        assert!(tests.contains(&format!("\"{title}\",")), "{title}");
    }
}

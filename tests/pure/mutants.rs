//! The list of mutations by hand follows the code.

use std::fs::read_to_string;

use crate::links::root;

#[test]
fn each_mutation_of_the_list_still_applies() {
    let rules = read_to_string(root().join("tests/mutants/rules.txt")).unwrap();
    for rule in rules.split("\n== ").skip(1) {
        let (head, texts) = rule.split_once("\n---\n").unwrap();
        let (title, file) = head.split_once("\nin ").unwrap();
        let (old, _) = texts.split_once("\n+++\n").unwrap();
        let count = read_to_string(root().join(file)).unwrap().matches(old).count();
        assert_eq!(count, 1, "{title}: its text is {count} times in {file}");
    }
}

//! The links of the documentation lead somewhere: to a file of this project, and to a heading in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page, by its path from the root.
pub(crate) fn pages() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                let is_ours = !name.starts_with('.') && name != "target" && name != "artifacts";
                folders.extend(is_ours.then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(root()).unwrap().to_owned(), text);
            }
        }
    }
    found
}

/// The lines that are not code.
pub(crate) fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence && !line.starts_with("    ")
    })
}

/// The heading's anchor, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    headings.map(anchor).collect()
}

/// Whether a link leads to a file of this project.
pub(crate) fn is_ours(link: &str) -> bool {
    !link.contains("://") && !link.starts_with("mailto:")
}

/// The text before a link, and the letter after it. A picture of two themes is HTML.
const LINKS: [(&str, char); 3] = [("](", ')'), (" src=\"", '"'), (" srcset=\"", '"')];

/// The links of a page, and the pictures that it shows.
pub(crate) fn links(page: &str) -> impl Iterator<Item = &str> {
    prose(page).flat_map(|line| {
        LINKS.iter().flat_map(move |(begin, end)| {
            let parts = line.split(begin).skip(1);
            parts.filter_map(|part| part.split_once(*end).map(|(link, _)| link))
        })
    })
}

/// The path without `..`.
pub(crate) fn resolved(from: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in from.parent().unwrap().join(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            part => path.push(part),
        }
    }
    path
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = pages();
    let mut checked = 0;
    let mut dead = Vec::new();
    for (page, text) in &pages {
        for link in links(text).filter(|link| is_ours(link)) {
            checked += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                resolved(page, file)
            };
            let is_there = root().join(&target).exists();
            let has_heading = heading.is_empty()
                || pages
                    .get(&target)
                    .is_some_and(|text| anchors(text).contains(heading));
            if !is_there || !has_heading {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
    assert!(checked > 100, "{checked} links");
}

#[test]
fn makes_anchors_as_github_does() {
    for (heading, expected) in [
        ("## The tables", "the-tables"),
        ("### Delegates with `--rm`", "delegates-with---rm"),
        (
            "# A Manager that signed its own certificate",
            "a-manager-that-signed-its-own-certificate",
        ),
        ("## What's new, and why?", "whats-new-and-why"),
    ] {
        assert_eq!(anchor(heading), expected);
    }
}

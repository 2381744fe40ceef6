//! The book that `make book` makes of the pages: every page is a chapter, and every link leads somewhere in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::links::{is_ours, links, pages, resolved, root};

fn chapters() -> BTreeSet<PathBuf> {
    let summary = Path::new("docs/SUMMARY.md");
    let text = &pages()[summary];
    links(text).map(|link| resolved(summary, link)).collect()
}

#[test]
fn every_page_of_docs_is_a_chapter() {
    let chapters = chapters();
    for page in pages().keys().filter(|page| page.starts_with("docs")) {
        let is_chapter = chapters.contains(page) || page.ends_with("SUMMARY.md");
        assert!(is_chapter, "docs/SUMMARY.md lacks {}", page.display());
    }
    assert!(chapters.len() > 30, "{chapters:#?}");
}

/// The book has the chapters and the files that they link to, and no folders.
#[test]
fn a_chapter_links_to_chapters_and_files() {
    let (pages, chapters) = (pages(), chapters());
    for chapter in &chapters {
        for link in links(&pages[chapter]).filter(|link| is_ours(link)) {
            let file = link.split('#').next().unwrap();
            let target = resolved(chapter, file);
            let is_page = target.extension().is_some_and(|extension| extension == "md");
            let is_in_the_book =
                file.is_empty() || chapters.contains(&target) || (!is_page && root().join(&target).is_file());
            assert!(is_in_the_book, "{}: {link}", chapter.display());
        }
    }
}

/// The picture names modules, and what is outside.
#[test]
fn each_box_of_the_architecture_is_a_module() {
    let picture = include_str!("../../docs/development/architecture.svg");
    let boxes = picture.split("class=\"name").skip(1);
    let names = boxes.map(|part| part.split_once('>').unwrap().1.split('<').next().unwrap());
    let names: BTreeSet<&str> = names.collect();
    for name in &names {
        let path = root().join("src").join(name.replace("::", "/"));
        let is_module = path.is_dir() || path.with_extension("rs").is_file();
        let is_part = root().join("src/rollout").join(name).is_dir();
        let is_outside = ["environment", "Manager", "Docker"].contains(name);
        assert!(is_module || is_part || is_outside, "{name}");
    }
    assert!(names.len() > 12, "{names:?}");
}

fn book() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("book")
}

/// The HTML pages, by their path in the book.
fn built(book: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![book.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("make book builds it") {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(book).unwrap().to_owned(), text);
            }
        }
    }
    found
}

/// The values of an attribute.
fn values<'a>(html: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let parts = html
        .split(&format!(" {attribute}=\""))
        .skip(1)
        .collect::<Vec<_>>();
    parts.into_iter().map(|part| part.split('"').next().unwrap())
}

#[test]
#[ignore = "needs the book: make book"]
fn every_link_of_the_built_book_leads_to_a_file_and_an_anchor() {
    let book = book();
    let built = built(&book);
    let anchors: BTreeMap<&PathBuf, BTreeSet<&str>> = built
        .iter()
        .map(|(page, html)| (page, values(html, "id").collect()))
        .collect();
    let (mut checked, mut dead) = (0, Vec::new());
    // The page for an address that does not exist has its links from the root of a server.
    for (page, html) in built.iter().filter(|(page, _)| !page.ends_with("404.html")) {
        let targets = values(html, "href").chain(values(html, "src"));
        for link in targets.filter(|link| is_ours(link) && !link.starts_with("data:")) {
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                resolved(page, file)
            };
            let has_anchor = || {
                anchors
                    .get(&target)
                    .is_some_and(|anchors| anchors.contains(anchor))
            };
            if !book.join(&target).is_file() || !(anchor.is_empty() || has_anchor()) {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
    assert!(checked > 1000, "{checked} links");
}

#[test]
#[ignore = "needs the book: make book"]
fn the_built_book_has_a_search_that_knows_the_reasons() {
    let files = fs::read_dir(book()).expect("make book builds it");
    let index = files.map(|entry| entry.unwrap().path()).find(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("searchindex")
    });
    let index = fs::read_to_string(index.expect("an index")).unwrap();
    for words in [
        "candidate_vanished",
        "HEALTHY_DEADLINE",
        "delegate_upgrader_engine_up",
    ] {
        assert!(index.contains(words), "{words}");
    }
}

//! The links of the documentation lead somewhere: to a file of this project, and to a heading in it. The same holds for the
//! book that `make book` builds from the pages of docs, with each page as a chapter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::{env, fs};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page, by its path from the root.
pub(crate) fn pages() -> BTreeMap<PathBuf, String> {
    texts(root(), "md")
}

/// The files below a folder with this extension, by their paths relative to it.
pub(crate) fn texts(folder: &Path, extension: &str) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                let is_ours = !name.starts_with('.') && name != "target" && name != "artifacts";
                folders.extend(is_ours.then_some(path));
            } else if path.extension().is_some_and(|other| other == extension) {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), text);
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

/// The heading's anchor, as GitHub and mdBook generate it.
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

/// The text before a link, and the character after it. A picture for two themes is HTML.
const LINKS: [(&str, char); 3] = [("](", ')'), (" src=\"", '"'), (" srcset=\"", '"')];

/// The links and pictures of a page.
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

/// A page's links and anchors.
type Ends<'a> = (Vec<&'a str>, BTreeSet<String>);

/// Each link to a missing file or anchor. `has` says whether a page may link to a file.
fn dead(pages: &BTreeMap<&Path, Ends<'_>>, least: usize, has: impl Fn(&Path, &Path) -> bool) -> Vec<String> {
    let (mut checked, mut dead) = (0, Vec::new());
    for (page, (links, _)) in pages {
        for link in links.iter().filter(|link| is_ours(link)) {
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                (*page).to_owned()
            } else {
                resolved(page, file)
            };
            let ends = pages.get(target.as_path());
            let has_anchor = anchor.is_empty() || ends.is_some_and(|(_, anchors)| anchors.contains(anchor));
            if !(has_anchor && has(page, &target)) {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(checked > least, "{checked} links");
    dead
}

/// The book has the chapters and the files that they link to, without other pages or folders.
#[test]
fn every_link_leads_to_an_existing_file_and_heading() {
    let (pages, summary) = (pages(), Path::new("docs/SUMMARY.md"));
    let chapters: BTreeSet<PathBuf> = links(&pages[summary])
        .map(|link| resolved(summary, link))
        .collect();
    for page in pages.keys().filter(|page| page.starts_with("docs")) {
        assert!(
            chapters.contains(page) || page == summary,
            "{summary:?} lacks {page:?}"
        );
    }
    let ends = pages
        .iter()
        .map(|(page, text)| (page.as_path(), (links(text).collect(), anchors(text))));
    let dead = dead(&ends.collect(), 100, |page, target| {
        let is_page = target.extension().is_some_and(|extension| extension == "md");
        let (is_chapter, path) = (chapters.contains(target), root().join(target));
        path.exists() && (is_chapter || !chapters.contains(page) || !is_page && path.is_file())
    });
    assert!(dead.is_empty(), "{dead:#?}");
}

fn book() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("book")
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
    let mut built = texts(&book, "html");
    // The links of the page for missing addresses start at the root of a server.
    built.remove(Path::new("404.html"));
    let ends = built.iter().map(|(page, html)| {
        let links = values(html, "href").chain(values(html, "src"));
        let links = links.filter(|link| !link.starts_with("data:")).collect();
        let anchors = values(html, "id").map(str::to_owned).collect();
        (page.as_path(), (links, anchors))
    });
    let dead = dead(&ends.collect(), 1000, |_, target| book.join(target).is_file());
    assert!(dead.is_empty(), "{dead:#?}");
}

//! Which image a delegate is to have: an override of its scope or of one above it, else what is published. Pure.

use std::collections::BTreeSet;

use delegate_upgrader::image::ImageReference;

use super::scope::Scope;
use super::support::Version;

pub(crate) type Tags = BTreeSet<String>;

/// Days for which an override holds by default, and at most.
const MOST_DAYS: i64 = 180;
const SECONDS_A_DAY: i64 = 86_400;

/// An image that an administrator wants for a scope, or for the delegates there that have some tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    pub(crate) scope: Scope,
    pub(crate) tags: Tags,
    pub(crate) image: String,
    /// The number of the release that was the latest when it was set.
    pub(crate) release: i64,
    pub(crate) till_next_release: bool,
    /// Seconds since the epoch.
    pub(crate) valid_until: i64,
}

/// The image that is published for everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Release {
    /// Counts up with each image published; 0 as long as there is none.
    pub(crate) number: i64,
    pub(crate) image: Option<String>,
}

impl Override {
    pub(crate) fn holds(&self, latest: &Release, now: i64) -> bool {
        now < self.valid_until && (!self.till_next_release || self.release == latest.number)
    }
}

/// An override as an administrator asks for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) scope: Scope,
    pub(crate) tags: Tags,
    pub(crate) image: String,
    pub(crate) till_next_release: bool,
    /// How long it is to hold, as it was given.
    pub(crate) days: Option<String>,
}

impl Wanted {
    pub(crate) fn into_override(self, latest: &Release, now: i64) -> Result<Override, String> {
        let image = delegate_image(&self.image)?;
        let days = match &self.days {
            None => MOST_DAYS,
            Some(text) => text
                .parse()
                .ok()
                .filter(|days| (1..=MOST_DAYS).contains(days))
                .ok_or_else(|| format!("{text:?} is not a number of days from 1 to {MOST_DAYS}"))?,
        };
        Ok(Override {
            scope: self.scope,
            tags: self.tags,
            image,
            release: latest.number,
            till_next_release: self.till_next_release,
            valid_until: now + days * SECONDS_A_DAY,
        })
    }
}

/// A delegate's image, which an upgrader could pull. A version alone is one of Harness's repository.
pub(crate) fn delegate_image(text: &str) -> Result<String, String> {
    let stock = format!("harness/delegate:{text}");
    if Version::of(&stock).is_some() {
        return Ok(stock);
    }
    check_image(text).map(|()| text.to_owned())
}

/// Whether an upgrader could pull it.
pub(crate) fn check_image(image: &str) -> Result<(), String> {
    let reference: Result<ImageReference, _> = image.parse();
    reference
        .map(drop)
        .map_err(|error| format!("{error}; an image is given whole, such as harness/delegate:26.02.88404"))
}

/// The image for a delegate with these tags in this scope; `None` as long as nothing is published.
///
/// With tags: of the overrides for some of them, the one of its own scope or of the nearest above. Without, or where
/// there is none: the same walk over the overrides without tags. Then what is published.
pub(crate) fn resolve(
    scope: &Scope,
    tags: &Tags,
    overrides: &[Override],
    latest: &Release,
    now: i64,
) -> Option<String> {
    let nearest = |suits: &dyn Fn(&Override) -> bool| {
        scope.and_above().find_map(|scope| {
            overrides
                .iter()
                .find(|found| found.scope == scope && suits(found) && found.holds(latest, now))
        })
    };
    nearest(&|found| !found.tags.is_empty() && found.tags.is_subset(tags))
        .or_else(|| nearest(&|found| found.tags.is_empty()))
        .map(|found| found.image.clone())
        .or_else(|| latest.image.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000;

    fn scope(text: &str) -> Scope {
        match text.split_once('/') {
            Some((org, project)) => Scope::new(Some(org), Some(project)),
            None => Scope::new(Some(text), None),
        }
        .unwrap()
    }

    fn tags(text: &str) -> Tags {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// `SCOPE [TAG…] = IMAGE`, with `!` before the image for one that is over, `?` for one that ends with the
    /// release after number 7, and `~` for one that was set during the release before.
    fn entry(text: &str) -> Override {
        let (left, right) = text.split_once('=').unwrap();
        let (place, tagged) = left.trim().split_once(' ').unwrap_or((left.trim(), ""));
        let image = right.trim();
        Override {
            scope: scope(place.trim_start_matches('-')),
            tags: tags(tagged),
            image: image.trim_start_matches(['!', '?', '~']).to_owned(),
            release: if image.starts_with('~') { 6 } else { 7 },
            till_next_release: image.starts_with(['?', '~']),
            valid_until: if image.starts_with('!') { NOW } else { NOW + 1 },
        }
    }

    #[test]
    fn the_nearest_override_that_suits_wins_and_one_with_tags_before_one_without() {
        let latest = Release {
            number: 7,
            image: Some("latest".to_owned()),
        };
        // scope, its delegate's tags, the overrides, the image; `-` is the account.
        let rows: &[(&str, &str, &[&str], &str)] = &[
            ("", "", &[], "latest"),
            ("o", "", &[], "latest"),
            ("o/p", "", &[], "latest"),
            ("o/p", "a", &[], "latest"),
            // without tags: project, organisation, account
            ("", "", &["- = A"], "A"),
            ("o", "", &["- = A"], "A"),
            ("o/p", "", &["- = A"], "A"),
            ("o", "", &["- = A", "o = O"], "O"),
            ("o/p", "", &["- = A", "o = O"], "O"),
            ("o/p", "", &["- = A", "o = O", "o/p = P"], "P"),
            ("o", "", &["- = A", "o = O", "o/p = P"], "O"),
            ("", "", &["o = O", "o/p = P"], "latest"),
            // overrides of other scopes
            ("o/p", "", &["x = X", "x/p = Y", "o/q = Q"], "latest"),
            ("o/p", "", &["x = X", "- = A"], "A"),
            // an override with tags is for delegates that have all of them
            ("o/p", "", &["o/p a = T"], "latest"),
            ("o/p", "a", &["o/p a = T"], "T"),
            ("o/p", "a b", &["o/p a = T"], "T"),
            ("o/p", "a", &["o/p a b = T"], "latest"),
            ("o/p", "c", &["o/p a = T"], "latest"),
            ("o/p", "a b", &["o/p a b = T"], "T"),
            // and goes before one without, even a nearer one
            ("o/p", "a", &["o/p = P", "o/p a = T"], "T"),
            ("o/p", "a", &["o/p = P", "- a = T"], "T"),
            ("o/p", "a", &["o/p = P", "o a = O", "- a = T"], "O"),
            ("o/p", "c", &["o/p = P", "- a = T"], "P"),
            ("o/p", "c", &["o = O", "o/p a = T", "- = A"], "O"),
            ("o/p", "a b", &["o/p a c = X", "o b = O"], "O"),
            // the organisation's and the account's own delegates take what is there and above, nothing below
            ("", "a", &["- a = A", "- = B"], "A"),
            ("", "a", &["o a = O", "o/p a = P"], "latest"),
            ("", "b", &["- a = A", "- = B"], "B"),
            ("o", "a", &["o a = T", "o = O"], "T"),
            ("o", "a", &["o/p a = P", "o = O"], "O"),
            ("o", "a", &["- a = A", "o = O"], "A"),
            ("o", "a", &["- = A", "o b = X"], "A"),
            ("o", "a b c", &["o a c = T", "- b = A"], "T"),
            // the nearest of those with tags, however many tags each has
            ("o/p", "a b", &["o/p a = P", "o a b = O"], "P"),
            ("o/p", "a b", &["o/p c = X", "o a b = O", "- a = A"], "O"),
            ("o/p", "a b", &["o/p a b c = X", "o c = Y", "- a = A"], "A"),
            ("o/p", "b a", &["o/p a b = T"], "T"),
            ("o/p", "a", &["o/p A = X"], "latest"),
            ("o/p", "ab", &["o/p a = X"], "latest"),
            // all six places taken
            (
                "o/p",
                "",
                &["- = A", "- a = B", "o = C", "o a = D", "o/p = E", "o/p a = F"],
                "E",
            ),
            (
                "o/p",
                "a",
                &["- = A", "- a = B", "o = C", "o a = D", "o/p = E", "o/p a = F"],
                "F",
            ),
            (
                "o/p",
                "z",
                &["- = A", "- a = B", "o = C", "o a = D", "o/p = E", "o/p a = F"],
                "E",
            ),
            (
                "o/q",
                "a",
                &["- = A", "- a = B", "o = C", "o a = D", "o/p = E", "o/p a = F"],
                "D",
            ),
            (
                "o/q",
                "",
                &["- = A", "- a = B", "o = C", "o a = D", "o/p = E", "o/p a = F"],
                "C",
            ),
            (
                "o",
                "a",
                &["- = A", "- a = B", "o = C", "o a = D", "o/p = E", "o/p a = F"],
                "D",
            ),
            (
                "",
                "a",
                &["- = A", "- a = B", "o = C", "o a = D", "o/p = E", "o/p a = F"],
                "B",
            ),
            (
                "x/p",
                "a",
                &["- = A", "- a = B", "o = C", "o a = D", "o/p = E", "o/p a = F"],
                "B",
            ),
            (
                "x/p",
                "",
                &["- = A", "- a = B", "o = C", "o a = D", "o/p = E", "o/p a = F"],
                "A",
            ),
            // a project of the same name in another organisation is another one
            ("x/p", "", &["o/p = P", "x = X"], "X"),
            ("x/p", "a", &["o/p a = P", "x/p a = T"], "T"),
            // what is over is as good as not there
            ("o/p", "", &["o/p = !P"], "latest"),
            ("o/p", "", &["o/p = !P", "o = O"], "O"),
            ("o/p", "a", &["o/p a = !T", "o/p = P"], "P"),
            ("o/p", "a", &["o/p a = !T", "- a = A"], "A"),
            // until the next release
            ("o/p", "", &["o/p = ?P"], "P"),
            ("o/p", "", &["o/p = ~P"], "latest"),
            ("o/p", "a", &["o/p a = ~T", "o = ?O"], "O"),
            ("o/p", "a", &["o/p a = ?T", "o/p = P"], "T"),
            ("o/p", "", &["o/p = ~P", "o = !O", "- = A"], "A"),
            ("o/p", "a b", &["o/p a = !P", "o a b = ~O", "- b = A"], "A"),
            ("", "", &["- = !A"], "latest"),
            ("", "a", &["- a = !A", "- = B"], "B"),
            ("o", "a", &["o a = !O", "- a = A"], "A"),
            ("o", "", &["o = ~O", "- = A"], "A"),
            ("o/p", "", &["- = ?A"], "A"),
            ("o/p", "", &["- = ~A"], "latest"),
            ("o/p", "", &["o/p a = F", "o a = D", "- a = B"], "latest"),
            ("o/p", "a", &["o/p a = !F", "o/p = E", "o a = D"], "D"),
            ("o/p", "a", &["o/p a = ~F", "o/p = E", "o a = !D"], "E"),
            (
                "o/p",
                "a",
                &[
                    "- = !A",
                    "- a = !B",
                    "o = !C",
                    "o a = !D",
                    "o/p = !E",
                    "o/p a = !F",
                ],
                "latest",
            ),
        ];
        for (place, tagged, overrides, image) in rows {
            let overrides: Vec<_> = overrides.iter().map(|text| entry(text)).collect();
            let found = resolve(&scope(place), &tags(tagged), &overrides, &latest, NOW);
            assert_eq!(
                found.as_deref(),
                Some(*image),
                "{place:?} {tagged:?} {overrides:#?}"
            );
        }
    }

    #[test]
    fn an_override_holds_for_one_to_180_days() {
        let latest = Release {
            number: 7,
            image: None,
        };
        let wanted = |days: Option<&str>| Wanted {
            image: "a:1".to_owned(),
            days: days.map(str::to_owned),
            ..Wanted::default()
        };
        for (days, expected) in [(None, 180), (Some("180"), 180), (Some("1"), 1)] {
            let set = wanted(days).into_override(&latest, NOW).unwrap();
            assert_eq!(
                (set.valid_until - NOW, set.release),
                (expected * SECONDS_A_DAY, 7)
            );
        }
        for days in ["0", "181", "-1", "soon", ""] {
            let error = wanted(Some(days)).into_override(&latest, NOW).unwrap_err();
            assert!(error.contains("1 to 180"), "{error}");
        }
    }

    #[test]
    fn an_override_needs_nothing_published() {
        let nothing = Release::default();
        assert_eq!(resolve(&Scope::Account, &tags(""), &[], &nothing, NOW), None);
        let found = resolve(&scope("o"), &tags(""), &[entry("- = A")], &nothing, NOW);
        assert_eq!(found.as_deref(), Some("A"));
    }
}

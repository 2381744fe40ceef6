//! The rules for image references from any source.

use delegate_upgrader::image::{ImageReference, Target, TargetSettings, manager_reference, resolve};

/// Checks each line of a text, and the first two lines together.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let whole = text.strip_suffix('\n').unwrap_or(&text);
    let first = read(whole);
    let mut lines = whole.split('\n');
    let (one, other) = (lines.next().and_then(read), lines.next().and_then(read));
    if let (Some(one), Some(other)) = (&one, &other) {
        together(one, other, lines.next());
    }
    if let Some(first) = first {
        together(&first, &first, None);
    }
}

fn read(text: &str) -> Option<ImageReference> {
    match text.parse::<ImageReference>() {
        Ok(reference) => {
            alone(text, &reference);
            Some(reference)
        }
        Err(error) => {
            let told = error.to_string();
            assert!(!told.contains(char::is_control), "{told:?}");
            assert!(told.chars().count() < 1500, "a novel");
            None
        }
    }
}

fn again(text: &str) -> ImageReference {
    text.parse()
        .unwrap_or_else(|error| panic!("what was made of a reference: {error}"))
}

fn alone(text: &str, reference: &ImageReference) {
    assert_eq!(reference.to_string(), text, "shown as it was written");
    assert_eq!(again(text), *reference);
    assert_is_plain(text);
    assert_is_plain(&reference.normalised());
    parts_lead_nowhere_else(reference);

    let normal = again(&reference.normalised());
    assert_eq!(normal, *reference);
    assert_eq!(normal.normalised(), reference.normalised());
    let known = manager_reference(reference, &TargetSettings::default());
    assert_eq!(
        (known.registry(), known.path(), known.tag()),
        (reference.registry(), reference.path(), reference.tag()),
        "the short form of {text}"
    );
}

/// No character means more than a letter to a URL, a header, a shell or a terminal.
fn assert_is_plain(text: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@[]".contains(c);
    assert!(text.chars().all(plain), "{text:?}");
}

/// In a URL, each part stays in its place.
fn parts_lead_nowhere_else(reference: &ImageReference) {
    let path = reference.path();
    assert!(path.len() <= 255);
    for segment in path.split('/') {
        assert!(!matches!(segment, "" | "." | ".."), "{path}");
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
        assert!(segment.chars().all(plain), "{path}");
    }
    assert!(!reference.registry().is_empty() && !reference.registry().contains(['/', '@']));
    let colons = reference
        .registry()
        .rsplit(']')
        .next()
        .unwrap_or_default()
        .matches(':');
    assert!(colons.count() <= 1, "{}", reference.registry());
    if let Some(tag) = reference.tag() {
        assert!(!tag.contains(['/', ':', '@']) && !tag.starts_with(['.', '-']));
    }
    if let Some(digest) = reference.digest() {
        let (_, hex) = digest.split_once(':').expect("a digest has a colon");
        assert!(hex.bytes().all(|b| b.is_ascii_hexdigit()));
    }
}

/// The decision about two references is a reference again, and repeating it changes nothing.
fn together(published: &ImageReference, current: &ImageReference, mirror: Option<&str>) {
    let settings = TargetSettings {
        registry_mirror: mirror.map(str::to_owned),
        ..TargetSettings::default()
    };
    let known = manager_reference(current, &settings);
    assert_is_plain(&known.to_string());
    if let Target::Replace(target) = resolve(published, current, &settings) {
        alone(&target.to_string(), &target);
        let next = resolve(published, &target, &settings);
        assert!(
            !matches!(next, Target::Replace(_) | Target::CustomImage),
            "{published} instead of {current} is {target}, and then {next:?}"
        );
    }
}

//! Computes the target image, which a delegate should run, from the published image.

use super::{ImageName, ImagePolicy, ImageReference, Pull, ReferenceError, Version, compose};

/// The path of Harness's own delegate image on the default registry.
const STOCK_PATH: &str = "harness/delegate";
/// The registry and path of Harness's second repository for that image.
const OTHER_STOCK: (&str, &str) = (
    "us-docker.pkg.dev",
    "gar-prod-setup/harness-public/harness/delegate",
);

/// The first number of versions by year and month is at least this. Versions of Harness Delegate 3.x start with 3.
const FIRST_YEAR: u64 = 20;
const THIRD: u64 = 3;

/// The variants that Harness publishes besides the plain build, longest first.
const VARIANTS: [&str; 3] = [".minimal-fips", ".minimal", "-fips"];

/// The administrator's settings for the source of images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetSettings {
    /// `REGISTRY_MIRROR`: a registry, with an optional path, that mirrors the published repositories.
    pub registry_mirror: Option<String>,
    /// `IMAGE_REPOSITORY`: the repository of the customer's own build of the delegate, without a tag.
    pub image_repository: Option<String>,
    /// The image that `SELF_UPGRADE` names for the upgrader. Without one, the image published for upgraders is used.
    pub self_image: Option<ImageReference>,
    /// `REQUIRE_DIGEST` and `MAX_VERSION`: which images are permitted.
    pub policy: ImagePolicy,
    /// `PULL`: when to pull images.
    pub pull: Pull,
}

impl TargetSettings {
    /// Returns an image of `IMAGE_REPOSITORY`.
    pub fn image_of_own_build(&self) -> Option<ImageReference> {
        check_repository(self.image_repository.as_deref()?).ok()
    }

    /// Returns the registries in these settings, as `host` or `host:port`.
    pub fn own_registries(&self) -> Vec<String> {
        let named = [&self.registry_mirror, &self.image_repository];
        let repositories = named.into_iter().flatten();
        let images = repositories.filter_map(|name| under(name, "x").parse::<ImageReference>().ok());
        images.map(|image| image.registry().to_owned()).collect()
    }
}

/// The image that a delegate should run, compared with the image that it runs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The delegate runs the published image.
    Current,
    /// The delegate runs the published reference, but its tag is mutable. Only the registry's digest shows if it is current.
    CheckDigest(ImageReference),
    /// The delegate should run this image, which may be newer or older.
    Replace(ImageReference),
    /// The delegate should run this image, but it is newer than `MAX_VERSION`.
    HeldBack(ImageReference, Version),
    /// The delegate should run this image, but it has no digest, which `REQUIRE_DIGEST` demands.
    NotPinned(ImageReference),
    /// The delegate runs a custom build. The stock image must not replace it, since its tools would be lost. If
    /// `IMAGE_REPOSITORY` names the repository of that build, the delegate follows the published tag there.
    CustomImage,
    /// The delegate runs Harness Delegate 3.x and a version such as 26.03.1 is published, or vice versa. These are two
    /// products in one repository, and each has its own variables and ports.
    OtherGeneration(ImageReference),
    /// The settings and the published reference cannot be combined into a reference. The text explains the reason.
    Unresolvable(String),
}

/// Computes the target of a delegate that runs `current` while `published` is published.
///
/// 1. `IMAGE_REPOSITORY`: that repository with the published tag. `REGISTRY_MIRROR`: the published repository below it.
/// 2. A published repository other than the stock one is an administrator's override, and is used as it is.
/// 3. If the current image is Harness's under any prefix, the target keeps that prefix, whichever of Harness's two
///    repositories is published. Harness's own images never replace a custom image.
/// 4. If the published tag is the plain one, the target keeps the suffix of the current tag, such as `.minimal` or `-tools`.
/// 5. If the target is the same reference, it is current unless its tag is mutable.
/// 6. An image that the [`ImagePolicy`] does not permit is not used.
///
/// The target keeps the digest of the published image unless the digest cannot match: for an own build, or for a variant of
/// the published image. If only the current image has a digest, the same version counts as equal.
pub fn resolve(published: &ImageReference, current: &ImageReference, settings: &TargetSettings) -> Target {
    if settings.image_repository.is_none() && is_harness(published) && !is_delegate(current) {
        return Target::CustomImage;
    }
    // `latest` hides the generation. A container with a DELEGATE_NAME is none of 3.x, whose containers have a HARNESS_NAME.
    let is_other = match (generation(published), generation(current)) {
        (Some(published), Some(current)) => published != current,
        (Some(published), None) => published == THIRD,
        _ => false,
    };
    if is_other {
        return Target::OtherGeneration(published.clone());
    }
    match wanted(published, current, settings) {
        Ok(wanted) => apply_policy(compare(wanted, current), &settings.policy),
        Err(reason) => Target::Unresolvable(reason),
    }
}

/// Computes the target of an upgrader that runs `current`: the image that `SELF_UPGRADE` names, or the image that is
/// `published` for upgraders if it is a later version in the same repository. The target stays in its present registry.
/// `MAX_VERSION` does not apply, since it limits delegates only.
pub fn resolve_upgrader(
    published: &ImageReference,
    current: &ImageReference,
    settings: &TargetSettings,
) -> Target {
    let wanted = match &settings.self_image {
        Some(image) => image.clone(),
        None => match later_upgrader(published, current, settings) {
            Ok(Some(image)) => image,
            Ok(None) => return Target::Current,
            Err(problem) => return Target::Unresolvable(problem),
        },
    };
    let policy = ImagePolicy {
        max_version: None,
        ..settings.policy.clone()
    };
    apply_policy(compare(wanted, current), &policy)
}

/// Returns the published image in the repository of the current one, if it is later.
fn later_upgrader(
    published: &ImageReference,
    current: &ImageReference,
    settings: &TargetSettings,
) -> Result<Option<ImageReference>, String> {
    let own = manager_reference(current, settings);
    if !own.is_of_repository(published) {
        return Err(format!(
            "{published} is published, which is another repository; SELF_UPGRADE can name the image to take"
        ));
    }
    match (Version::of(&own), Version::of(published)) {
        (Some(own), Some(version)) if own >= version => Ok(None),
        (Some(_), Some(_)) => compose(current.written_name(), published.tag(), published.digest())
            .parse()
            .map(Some)
            .map_err(|error: ReferenceError| error.to_string()),
        _ => Err(format!(
            "{published} is published, and one of the two tags has no version; SELF_UPGRADE can name the image to take"
        )),
    }
}

/// Returns the reference by which the Manager knows `current`: in its familiar form, without the mirror, and without the
/// digest if there is a tag. The Manager compares references as text.
pub fn manager_reference(current: &ImageReference, settings: &TargetSettings) -> ImageReference {
    let name = current.familiar_name();
    let name = settings
        .registry_mirror
        .as_deref()
        .and_then(|mirror| below(current, mirror))
        .unwrap_or(name);
    let digest = if current.tag().is_some() {
        None
    } else {
        current.digest()
    };
    compose(&name, current.tag(), digest)
        .parse()
        .unwrap_or_else(|_| current.clone())
}

/// Checks a `REGISTRY_MIRROR`.
///
/// # Errors
/// A repository under the mirror would not be a valid image reference.
pub fn check_mirror(mirror: &str) -> Result<(), ReferenceError> {
    under(mirror, STOCK_PATH).parse::<ImageReference>().map(drop)
}

/// Checks an `IMAGE_REPOSITORY`, and returns an image of it.
///
/// # Errors
/// The value is not a repository without a tag and digest.
pub fn check_repository(repository: &str) -> Result<ImageReference, ReferenceError> {
    compose(repository, Some(super::DEFAULT_TAG), None).parse()
}

fn wanted(
    published: &ImageReference,
    current: &ImageReference,
    settings: &TargetSettings,
) -> Result<ImageReference, String> {
    let own_build = settings.image_repository.as_deref();
    // Only Harness decides in which of its two repositories it publishes. A mirror has the image under one of them.
    let keeps_place = is_harness(published) && !is_harness(current);
    let name = match (own_build, settings.registry_mirror.as_deref()) {
        (Some(repository), _) => repository.to_owned(),
        (None, Some(mirror)) if below(published, mirror).is_none() => under(mirror, published.path()),
        (None, None) if is_stock(published) || keeps_place => current.written_name().to_owned(),
        (None, _) => published.written_name().to_owned(),
    };
    let suffix = if is_harness(published) {
        suffix_to_keep(published, current)?
    } else {
        ""
    };
    let tag = published.tag().map(|tag| format!("{tag}{suffix}"));
    let digest = published
        .digest()
        .filter(|_| own_build.is_none() && suffix.is_empty());
    if tag.is_none() && digest.is_none() {
        return Err(format!(
            "the published image {published} has no tag, which IMAGE_REPOSITORY needs"
        ));
    }
    compose(&name, tag.as_deref(), digest)
        .parse()
        .map_err(|error: ReferenceError| error.to_string())
}

fn compare(wanted: ImageReference, current: &ImageReference) -> Target {
    let same = match wanted.digest() {
        Some(digest) => current.digest() == Some(digest),
        None => current.tag() == wanted.tag(),
    };
    if !same || !wanted.is_of_repository(current) {
        Target::Replace(wanted)
    } else if is_mutable_tag(&wanted) {
        Target::CheckDigest(wanted)
    } else {
        Target::Current
    }
}

fn apply_policy(target: Target, policy: &ImagePolicy) -> Target {
    let (Target::Replace(wanted) | Target::CheckDigest(wanted)) = &target else {
        return target;
    };
    if policy.require_digest && wanted.digest().is_none() {
        return Target::NotPinned(wanted.clone());
    }
    let Some(max) = &policy.max_version else {
        return target;
    };
    match max.is_at_least(wanted) {
        Some(true) => target,
        Some(false) => Target::HeldBack(wanted.clone(), max.clone()),
        None => Target::Unresolvable(format!(
            "cannot tell from the tag of {wanted} whether it is newer than MAX_VERSION={max}"
        )),
    }
}

fn is_stock(reference: &ImageReference) -> bool {
    (reference.registry(), reference.path()) == (super::DEFAULT_REGISTRY, STOCK_PATH)
}

/// Whether this is a build by Harness itself, which lacks the additions of custom images, comes in variants, and was built on about
/// the day of its release. `reference` is its name without a mirror.
pub fn is_harness(reference: &ImageReference) -> bool {
    is_stock(reference) || (reference.registry(), reference.path()) == OTHER_STOCK
}

/// Whether an image with this name is a delegate: Harness's own from any registry, or from a repository in `known`.
pub fn is_delegate_image(image: &ImageName, known: &[ImageReference]) -> bool {
    let Ok(image) = image.reference() else {
        return false;
    };
    is_delegate(image) || known.iter().any(|known| known.is_of_repository(image))
}

/// Whether this is Harness's image, under any registry and prefix that a mirror may use.
fn is_delegate(reference: &ImageReference) -> bool {
    reference
        .path()
        .strip_suffix(STOCK_PATH)
        .is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('/'))
}

/// Returns which of the two products in one repository a delegate's image is: 3 for Harness Delegate 3.x, 0 for versions by
/// year and month, or `None` if the image or its tag does not show it.
fn generation(reference: &ImageReference) -> Option<u64> {
    let version = Version::of(reference).filter(|_| is_delegate(reference))?;
    let first = *version.numbers().first()?;
    Some(if first < FIRST_YEAR { THIRD } else { 0 })
}

/// Returns the text after the version in a tag, or the variant at the end of a tag without a version.
fn suffix(tag: &str) -> &str {
    if let Some((_, rest)) = Version::split(tag) {
        return rest;
    }
    VARIANTS
        .into_iter()
        .find(|variant| tag.ends_with(variant))
        .unwrap_or_default()
}

/// Returns the suffix of the current tag if it must be kept. It names a build with something that the plain one lacks. A
/// published variant replaces only Harness's own variants.
fn suffix_to_keep<'a>(published: &'a ImageReference, current: &'a ImageReference) -> Result<&'a str, String> {
    let of = |reference: &'a ImageReference| reference.tag().map_or("", suffix);
    match (of(published), of(current)) {
        ("", own) => Ok(own),
        (other, own) if own.is_empty() || own == other || VARIANTS.contains(&own) => Ok(""),
        (other, own) => Err(format!(
            "its tag ends in {own:?}, and that of the published image {published} in {other:?}; set IMAGE_REPOSITORY to the \
             repository of your own build, or recreate the delegate with the published image"
        )),
    }
}

/// Whether a reference may later point to another image: it has no digest, and its tag contains no version, which is two
/// numbers joined by a dot.
pub fn is_mutable_tag(reference: &ImageReference) -> bool {
    let is_version = |three: &[u8]| matches!(three, [a, b'.', b] if a.is_ascii_digit() && b.is_ascii_digit());
    let has_version = |tag: &str| tag.as_bytes().windows(3).any(is_version);
    reference.digest().is_none() && reference.tag().is_some_and(|tag| !has_version(tag))
}

fn under(mirror: &str, path: &str) -> String {
    format!("{}/{path}", mirror.trim_end_matches('/'))
}

/// Returns the path of a reference below the mirror, or `None` if it is not below it. Parses the mirror in the same way as
/// the start of any reference below it.
fn below(reference: &ImageReference, mirror: &str) -> Option<String> {
    let mirror = under(mirror, "x").parse::<ImageReference>().ok()?;
    let mirror_repository = mirror.repository();
    // On the default registry, a mirror without a path is the registry itself: `docker.io/x` parses as `library/x`.
    let prefix = mirror_repository
        .strip_suffix("library/x")
        .filter(|_| mirror.registry() == super::DEFAULT_REGISTRY)
        .or_else(|| mirror_repository.strip_suffix('x'))?;
    reference
        .repository()
        .strip_prefix(prefix)
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
}

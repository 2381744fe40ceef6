//! The target for a published image, row by row.

use delegate_upgrader::image::{
    ImagePolicy, ImageReference, Target, TargetSettings, manager_reference, resolve, resolve_upgrader,
};

const A: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// `@A` and `@B` in a row stand for two digests.
fn reference(text: &str) -> ImageReference {
    expand(text).parse().unwrap_or_else(|error| panic!("{error}"))
}

fn expand(text: &str) -> String {
    text.replace("@A", &format!("@{A}"))
        .replace("@B", &format!("@{B}"))
}

fn outcome(target: &Target) -> String {
    match target {
        Target::Current => "current".to_owned(),
        Target::CheckDigest(reference) => format!("check {reference}"),
        Target::Replace(reference) => format!("replace {reference}"),
        Target::CustomImage => "custom".to_owned(),
        Target::OtherGeneration(_) => "other generation".to_owned(),
        Target::HeldBack(reference, max) => format!("held back {reference} by {max}"),
        Target::NotPinned(reference) => format!("not pinned {reference}"),
        Target::Unresolvable(_) => "unresolvable".to_owned(),
    }
}

fn assert_rows(settings: &TargetSettings, rows: &[(&str, &str, &str)]) {
    for (published, current, expected) in rows {
        let target = resolve(&reference(published), &reference(current), settings);
        assert_eq!(
            outcome(&target),
            expand(expected),
            "published {published}, current {current}, {settings:?}"
        );
    }
}

fn mirror(mirror: &str) -> TargetSettings {
    TargetSettings {
        registry_mirror: Some(mirror.to_owned()),
        ..TargetSettings::default()
    }
}

fn own_build(repository: &str) -> TargetSettings {
    TargetSettings {
        image_repository: Some(repository.to_owned()),
        ..TargetSettings::default()
    }
}

#[test]
#[rustfmt::skip]
fn the_stock_image_keeps_its_registry_prefix() {
    assert_rows(&TargetSettings::default(), &[
        // published                          current                                          target
        ("harness/delegate:26.03.88501",      "harness/delegate:26.02.88404",                  "replace harness/delegate:26.03.88501"),
        ("harness/delegate:26.02.88404",      "harness/delegate:26.03.88501",                  "replace harness/delegate:26.02.88404"),
        ("harness/delegate:26.03.88501",      "harness/delegate:26.03.88501",                  "current"),
        ("harness/delegate:26.03.88501",      "docker.io/harness/delegate:26.03.88501",        "current"),
        ("docker.io/harness/delegate:26.03.1","harness/delegate:26.03.1",                      "current"),
        ("harness/delegate:26.03.88501",      "docker.io/harness/delegate:26.02.88404",        "replace docker.io/harness/delegate:26.03.88501"),
        ("docker.io/harness/delegate:26.03.1","harness/delegate:26.02.1",                      "replace harness/delegate:26.03.1"),
        ("harness/delegate:26.03.1",          "gcr.corp/mirror/harness/delegate:26.02.1",      "replace gcr.corp/mirror/harness/delegate:26.03.1"),
        ("harness/delegate:26.03.1",          "gcr.corp/mirror/harness/delegate:26.03.1",      "current"),
        ("harness/delegate:26.03.1",          "us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:26.02.1",
                                                                                               "replace us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:26.03.1"),
        ("harness/delegate:26.03.1",          "localhost:5000/harness/delegate:26.02.1",       "replace localhost:5000/harness/delegate:26.03.1"),
        ("harness/delegate:26.03.1",          "hub/harness/delegate:26.02.1",                  "replace hub/harness/delegate:26.03.1"),
        ("harness/delegate:26.03.1",          "harness/delegate",                              "replace harness/delegate:26.03.1"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_custom_image_is_never_replaced_by_the_stock_one() {
    for settings in [TargetSettings::default(), mirror("mirror.corp")] {
        assert_rows(&settings, &[
            ("harness/delegate:26.03.1", "corp/delegate:26.02.1",                    "custom"),
            ("harness/delegate:26.03.1", "registry.corp/tools/my-delegate:7",        "custom"),
            ("harness/delegate:26.03.1", "harness/delegate-with-tools:26.02.1",      "custom"),
            ("harness/delegate:26.03.1", "notharness/delegate:26.02.1",              "custom"),
            ("harness/delegate:26.03.1", "registry.corp/harness/delegate/x:26.02.1", "custom"),
            ("harness/delegate:26.03.1", "delegate:26.03.1",                         "custom"),
        ]);
    }
}

#[test]
#[rustfmt::skip]
fn follows_other_harness_repository_except_for_custom_images() {
    assert_rows(&TargetSettings::default(), &[
        ("us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:26.03.1", "corp/delegate:26.02.1",
            "custom"),
        ("us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:26.03.1", "harness/delegate:26.02.1",
            "replace us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:26.03.1"),
        ("us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:26.03.1", "harness/delegate:26.02.1.minimal",
            "replace us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:26.03.1.minimal"),
        // A mirror keeps its prefix, whichever of Harness's two repositories is published.
        ("us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:26.03.1", "mirror/harness/delegate:26.02.1",
            "replace mirror/harness/delegate:26.03.1"),
        ("us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:26.03.1", "gcr.corp/a/harness/delegate:26.03.1",
            "current"),
        ("us-docker.pkg.dev/other/harness/delegate:26.03.1", "harness/delegate:26.02.1.minimal",
            "replace us-docker.pkg.dev/other/harness/delegate:26.03.1"),
    ]);
}

#[test]
#[rustfmt::skip]
fn follows_administrator_override_verbatim() {
    assert_rows(&TargetSettings::default(), &[
        ("registry.corp/delegate:7.1",              "harness/delegate:26.02.1",              "replace registry.corp/delegate:7.1"),
        ("registry.corp/delegate:7.1",              "registry.corp/delegate:7.1",            "current"),
        ("corp/delegate:7.1",                       "corp/other:7.1",                        "replace corp/delegate:7.1"),
        ("registry.corp/harness/delegate:26.03.1",  "harness/delegate:26.03.1",              "replace registry.corp/harness/delegate:26.03.1"),
        ("registry.corp/harness/delegate:26.03.1",  "harness/delegate:26.02.1.minimal",      "replace registry.corp/harness/delegate:26.03.1"),
        ("corp/delegate",                           "corp/delegate:latest",                  "check corp/delegate:latest"),
    ]);
}

#[test]
#[rustfmt::skip]
fn keeps_variant_for_plain_published_tag() {
    assert_rows(&TargetSettings::default(), &[
        ("harness/delegate:26.03.1",         "harness/delegate:26.02.1.minimal",      "replace harness/delegate:26.03.1.minimal"),
        ("harness/delegate:26.03.1",         "harness/delegate:26.02.1-fips",         "replace harness/delegate:26.03.1-fips"),
        ("harness/delegate:26.03.1",         "harness/delegate:26.02.1.minimal-fips", "replace harness/delegate:26.03.1.minimal-fips"),
        ("harness/delegate:26.03.1",         "harness/delegate:26.03.1.minimal",      "current"),
        ("harness/delegate:26.03.1",         "harness/delegate:26.03.1.minimal-fips", "current"),
        ("harness/delegate:26.03.1",         "gcr.corp/harness/delegate:26.02.1-fips","replace gcr.corp/harness/delegate:26.03.1-fips"),
        ("harness/delegate:26.03.1.minimal", "harness/delegate:26.02.1",              "replace harness/delegate:26.03.1.minimal"),
        ("harness/delegate:26.03.1.minimal", "harness/delegate:26.02.1-fips",         "replace harness/delegate:26.03.1.minimal"),
        ("harness/delegate:26.03.1.minimal", "harness/delegate:26.03.1.minimal",      "current"),
    ]);
}

#[test]
#[rustfmt::skip]
fn keeps_unknown_suffix() {
    assert_rows(&TargetSettings::default(), &[
        ("harness/delegate:26.03.1",         "harness/delegate:26.02.1-tools",               "replace harness/delegate:26.03.1-tools"),
        ("harness/delegate:26.03.1",         "harness/delegate:26.02.1.minimal-stig",        "replace harness/delegate:26.03.1.minimal-stig"),
        ("harness/delegate:26.03.1",         "r.corp/harness/delegate:26.02.1-ours-7",       "replace r.corp/harness/delegate:26.03.1-ours-7"),
        ("harness/delegate:26.03.1",         "harness/delegate:26.02.1rc2",                  "replace harness/delegate:26.03.1rc2"),
        ("harness/delegate:26.03.1-tools",   "harness/delegate:26.02.1-tools",               "replace harness/delegate:26.03.1-tools"),
        ("harness/delegate:26.03.1",         "harness/delegate:26.03.1-tools",               "current"),
        // Another build is published, which may lack the tools.
        ("harness/delegate:26.03.1.minimal", "harness/delegate:26.02.1-tools",               "unresolvable"),
        // An administrator's own repository.
        ("r.corp/team/worker:26.03.1",       "harness/delegate:26.02.1-tools",               "replace r.corp/team/worker:26.03.1"),
    ]);
    assert_rows(&own_build("corp/delegate"), &[
        ("harness/delegate:26.03.1",         "corp/delegate:26.02.1-tools",                  "replace corp/delegate:26.03.1-tools"),
    ]);
}

#[test]
#[rustfmt::skip]
fn delegate_3_and_month_based_versions_never_replace_each_other() {
    for settings in [TargetSettings::default(), mirror("mirror.corp"), own_build("corp/harness/delegate")] {
        assert_rows(&settings, &[
            ("harness/delegate:26.03.1", "harness/delegate:3.0.0",          "other generation"),
            ("harness/delegate:26.03.1", "r.corp/x/harness/delegate:3.1.4", "other generation"),
            ("harness/delegate:3.0.0",   "harness/delegate:26.03.1",        "other generation"),
            ("harness/delegate:3.0.0",   "r.corp/harness/delegate:latest",  "other generation"),
        ]);
    }
    assert_rows(&TargetSettings::default(), &[
        ("harness/delegate:3.1.0",         "harness/delegate:3.0.0", "replace harness/delegate:3.1.0"),
        ("r.corp/team/delegate:7.1.0",     "harness/delegate:26.02.1", "replace r.corp/team/delegate:7.1.0"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_mirror_is_assumed_to_keep_the_published_path() {
    assert_rows(&mirror("mirror.corp:5000"), &[
        ("harness/delegate:26.03.1",           "harness/delegate:26.02.1",                         "replace mirror.corp:5000/harness/delegate:26.03.1"),
        ("harness/delegate:26.03.1",           "harness/delegate:26.03.1",                         "replace mirror.corp:5000/harness/delegate:26.03.1"),
        ("harness/delegate:26.03.1",           "mirror.corp:5000/harness/delegate:26.03.1",        "current"),
        ("harness/delegate:26.03.1",           "gcr.corp/x/harness/delegate:26.02.1.minimal",      "replace mirror.corp:5000/harness/delegate:26.03.1.minimal"),
        ("registry.corp/team/delegate:7.1",    "harness/delegate:26.02.1",                         "replace mirror.corp:5000/team/delegate:7.1"),
        ("mirror.corp:5000/team/delegate:7.1", "harness/delegate:26.02.1",                         "replace mirror.corp:5000/team/delegate:7.1"),
        ("harness/delegate:26.03.1@A",         "harness/delegate:26.02.1",                         "replace mirror.corp:5000/harness/delegate:26.03.1@A"),
    ]);
    assert_rows(&mirror("mirror.corp/hub/"), &[
        ("harness/delegate:26.03.1",                 "harness/delegate:26.02.1",                 "replace mirror.corp/hub/harness/delegate:26.03.1"),
        ("mirror.corp/hub/harness/delegate:26.03.1", "harness/delegate:26.02.1",                 "replace mirror.corp/hub/harness/delegate:26.03.1"),
        ("harness/delegate:26.03.1",                 "mirror.corp/hub/harness/delegate:26.03.1", "current"),
    ]);
    assert_rows(&mirror("docker.io"), &[
        ("harness/delegate:26.03.1", "harness/delegate:26.03.1", "current"),
    ]);
    assert_rows(&mirror("https://mirror.corp"), &[
        ("harness/delegate:26.03.1", "harness/delegate:26.03.1", "unresolvable"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_custom_build_follows_the_published_tag() {
    assert_rows(&own_build("registry.corp/my-delegate"), &[
        ("harness/delegate:26.03.1",         "registry.corp/my-delegate:26.02.1",      "replace registry.corp/my-delegate:26.03.1"),
        ("harness/delegate:26.03.1",         "registry.corp/my-delegate:26.03.1",      "current"),
        ("harness/delegate:26.03.1",         "harness/delegate:26.03.1",               "replace registry.corp/my-delegate:26.03.1"),
        ("harness/delegate:26.03.1",         "corp/something-else:3",                  "replace registry.corp/my-delegate:26.03.1"),
        ("harness/delegate:26.03.1",         "registry.corp/my-delegate:26.02.1-fips", "replace registry.corp/my-delegate:26.03.1-fips"),
        ("other.corp/delegate:7.1",          "registry.corp/my-delegate:26.02.1",      "replace registry.corp/my-delegate:7.1"),
        ("harness/delegate:26.03.1@A",       "registry.corp/my-delegate:26.02.1",      "replace registry.corp/my-delegate:26.03.1"),
        ("harness/delegate:latest",          "registry.corp/my-delegate:latest",       "check registry.corp/my-delegate:latest"),
        ("harness/delegate@A",               "registry.corp/my-delegate:26.02.1",      "unresolvable"),
    ]);
    assert_rows(&own_build("registry.corp/my-delegate:1"), &[
        ("harness/delegate:26.03.1", "registry.corp/my-delegate:26.03.1", "unresolvable"),
    ]);
    let both = TargetSettings { registry_mirror: Some("mirror.corp".to_owned()), ..own_build("corp/d") };
    assert_rows(&both, &[
        ("harness/delegate:26.03.1", "harness/delegate:26.02.1", "replace corp/d:26.03.1"),
    ]);
}

#[test]
#[rustfmt::skip]
fn compares_mutable_tag_by_registry_digest() {
    assert_rows(&TargetSettings::default(), &[
        ("harness/delegate:latest",         "harness/delegate",                 "check harness/delegate:latest"),
        ("harness/delegate",                "harness/delegate:latest",          "check harness/delegate:latest"),
        ("harness/delegate:stable",         "gcr.corp/harness/delegate:stable", "check gcr.corp/harness/delegate:stable"),
        ("harness/delegate:latest",         "harness/delegate:latest.minimal",  "check harness/delegate:latest.minimal"),
        ("harness/delegate:26",             "harness/delegate:26",              "check harness/delegate:26"),
        ("harness/delegate:v2.x",           "harness/delegate:v2.x",            "check harness/delegate:v2.x"),
        ("harness/delegate:latest",         "harness/delegate:26.02.1",         "replace harness/delegate:latest"),
        ("harness/delegate:latest",         "harness/delegate:latest@A",        "check harness/delegate:latest"),
    ]);
}

#[test]
#[rustfmt::skip]
fn the_digest_decides_when_the_published_reference_has_one() {
    assert_rows(&TargetSettings::default(), &[
        ("harness/delegate:26.03.1@A", "harness/delegate:26.03.1@A",         "current"),
        ("harness/delegate:26.03.1@A", "harness/delegate@A",                 "current"),
        ("harness/delegate:26.03.1@A", "harness/delegate:26.03.1@B",         "replace harness/delegate:26.03.1@A"),
        ("harness/delegate:26.03.1@A", "harness/delegate:26.03.1",           "replace harness/delegate:26.03.1@A"),
        ("harness/delegate:latest@A",  "harness/delegate:latest@A",          "current"),
        ("harness/delegate@A",         "gcr.corp/harness/delegate:26.02.1",  "replace gcr.corp/harness/delegate@A"),
        ("harness/delegate:26.03.1@A", "harness/delegate:26.02.1.minimal",   "replace harness/delegate:26.03.1.minimal"),
        // A pinned current image of the published version is that version.
        ("harness/delegate:26.03.1",   "harness/delegate:26.03.1@A",         "current"),
        ("harness/delegate:26.03.1",   "harness/delegate:26.02.1@A",         "replace harness/delegate:26.03.1"),
        ("harness/delegate:26.03.1",   "harness/delegate:26.02.1.minimal@A", "replace harness/delegate:26.03.1.minimal"),
        // Without a tag, its version is unknown.
        ("harness/delegate:26.03.1",   "harness/delegate@A",                 "replace harness/delegate:26.03.1"),
    ]);
}

#[test]
#[rustfmt::skip]
fn leaves_forbidden_image_alone() {
    let newest = ImagePolicy { max_version: "26.03".parse().ok(), ..ImagePolicy::default() };
    let newest = TargetSettings { policy: newest, ..TargetSettings::default() };
    assert_rows(&newest, &[
        ("harness/delegate:26.03.1",         "harness/delegate:26.02.1",          "replace harness/delegate:26.03.1"),
        ("harness/delegate:26.04.1",         "harness/delegate:26.02.1",          "held back harness/delegate:26.04.1 by 26.03"),
        ("harness/delegate:26.04.1",         "harness/delegate:26.02.1.minimal",  "held back harness/delegate:26.04.1.minimal by 26.03"),
        // The running image is newer: a downgrade within the bound is ordinary.
        ("harness/delegate:26.02.1",         "harness/delegate:26.04.1",          "replace harness/delegate:26.02.1"),
        ("harness/delegate:26.04.1",         "harness/delegate:26.04.1",          "current"),
        ("harness/delegate:latest",          "harness/delegate:26.02.1",          "unresolvable"),
        ("harness/delegate:latest",          "harness/delegate:latest",           "unresolvable"),
        ("harness/delegate@A",               "harness/delegate:26.02.1",          "unresolvable"),
        ("registry.corp/delegate:26.05",     "harness/delegate:26.02.1",          "held back registry.corp/delegate:26.05 by 26.03"),
        ("harness/delegate:26.04.1",         "corp/delegate:26.02.1",             "custom"),
    ]);
    let pinned = ImagePolicy { require_digest: true, ..ImagePolicy::default() };
    let pinned = |settings: TargetSettings| TargetSettings { policy: pinned.clone(), ..settings };
    assert_rows(&pinned(TargetSettings::default()), &[
        ("harness/delegate:26.03.1@A", "harness/delegate:26.02.1",         "replace harness/delegate:26.03.1@A"),
        ("harness/delegate@A",         "harness/delegate:26.02.1",         "replace harness/delegate@A"),
        ("harness/delegate:26.03.1@A", "harness/delegate:26.03.1@A",       "current"),
        ("harness/delegate:26.03.1",   "harness/delegate:26.02.1",         "not pinned harness/delegate:26.03.1"),
        ("harness/delegate:26.03.1",   "harness/delegate:26.03.1",         "current"),
        ("harness/delegate:latest",    "harness/delegate:latest",          "not pinned harness/delegate:latest"),
        // The digest belongs to the plain build.
        ("harness/delegate:26.03.1@A", "harness/delegate:26.02.1.minimal", "not pinned harness/delegate:26.03.1.minimal"),
    ]);
    assert_rows(&pinned(own_build("corp/d")), &[
        ("harness/delegate:26.03.1@A", "corp/d:26.02.1",                   "not pinned corp/d:26.03.1"),
    ]);
    assert_rows(&pinned(mirror("mirror.corp")), &[
        ("harness/delegate:26.03.1@A", "harness/delegate:26.02.1",         "replace mirror.corp/harness/delegate:26.03.1@A"),
    ]);
}

#[test]
fn the_target_itself_counts_as_current() {
    for settings in [
        TargetSettings::default(),
        mirror("mirror.corp/hub"),
        own_build("corp/d"),
    ] {
        for published in [
            "harness/delegate:26.03.1",
            "harness/delegate:26.03.1@A",
            "corp.io/x/delegate:7.1",
        ] {
            for current in [
                "harness/delegate:26.02.1",
                "a.b/harness/delegate:26.02.1.minimal",
                "harness/delegate@B",
            ] {
                let published = reference(published);
                let Target::Replace(target) = resolve(&published, &reference(current), &settings) else {
                    panic!("{published} {current} {settings:?}");
                };
                assert_eq!(
                    resolve(&published, &target, &settings),
                    Target::Current,
                    "{target}"
                );
            }
        }
    }
}

#[test]
#[rustfmt::skip]
fn the_manager_is_queried_with_the_reference_it_knows() {
    for (current, mirror_setting, known) in [
        ("harness/delegate:26.02.1",                  None,                "harness/delegate:26.02.1"),
        ("docker.io/harness/delegate:26.02.1",        None,                "harness/delegate:26.02.1"),
        ("harness/delegate:26.02.1@A",                None,                "harness/delegate:26.02.1"),
        ("harness/delegate@A",                        None,                "harness/delegate@A"),
        ("harness/delegate",                          None,                "harness/delegate:latest"),
        ("mirror.corp/harness/delegate:26.02.1",      Some("mirror.corp"), "harness/delegate:26.02.1"),
        ("mirror.corp/hub/harness/delegate:26.02.1",  Some("mirror.corp/hub/"), "harness/delegate:26.02.1"),
        ("mirror.corp/hubris/harness/delegate:1.2",   Some("mirror.corp/hub"),  "mirror.corp/hubris/harness/delegate:1.2"),
        ("other.corp/harness/delegate:26.02.1",       Some("mirror.corp"), "other.corp/harness/delegate:26.02.1"),
        ("us-docker.pkg.dev/a/harness/delegate:1.2",  None,                "us-docker.pkg.dev/a/harness/delegate:1.2"),
        ("hub/harness/delegate:1.2",                  Some("hub"),         "harness/delegate:1.2"),
    ] {
        let settings = TargetSettings { registry_mirror: mirror_setting.map(str::to_owned), ..TargetSettings::default() };
        assert_eq!(manager_reference(&reference(current), &settings).to_string(), expand(known));
    }
}

#[test]
#[rustfmt::skip]
fn upgrader_takes_self_image_or_later_version_of_its_repository() {
    let plain = TargetSettings::default();
    let mirrored = mirror("mirror.corp/hub");
    let told = TargetSettings { self_image: Some(reference("r.corp/own:1.2.0")), ..plain.clone() };
    // A month of the delegate is not a version of the upgrader; both need a digest.
    let policy = ImagePolicy { max_version: "26.01".parse().ok(), require_digest: true };
    let strict = TargetSettings { policy, ..plain.clone() };
    for (current, published, settings, expected) in [
        ("team/upgrader:1.2.0", "team/upgrader:1.10.0", &plain, "replace team/upgrader:1.10.0"),
        ("team/upgrader:1.2.0", "team/upgrader:1.2.0", &plain, "current"),
        ("team/upgrader:1.3.0", "team/upgrader:1.2.9", &plain, "current"),
        ("team/upgrader:1.2.0", "harness/upgrader:1.3.0", &plain, "unresolvable"),
        ("team/upgrader:latest", "team/upgrader:1.3.0", &plain, "unresolvable"),
        // It stays in its original registry.
        ("mirror.corp/hub/team/upgrader:1.2.0", "team/upgrader:1.3.0", &mirrored,
            "replace mirror.corp/hub/team/upgrader:1.3.0"),
        // The configured image is right, even if it is older or from another repository.
        ("team/upgrader:1.3.0", "r.corp/own:1.2.0", &told, "replace r.corp/own:1.2.0"),
        ("r.corp/own:1.2.0", "r.corp/own:1.2.0", &told, "current"),
        ("team/upgrader:1.0.0", "team/upgrader:99.1.0", &strict, "not pinned team/upgrader:99.1.0"),
        ("team/upgrader:1.0.0", "team/upgrader:99.1.0@A", &strict, "replace team/upgrader:99.1.0@A"),
    ] {
        let found = resolve_upgrader(&reference(published), &reference(current), settings);
        assert_eq!(outcome(&found), expand(expected), "published {published}, current {current}");
    }
}

//! References: which are read, which are refused, and which are the same.

use delegate_upgrader::image::{ImageReference, TargetSettings, manager_reference};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn reference(text: &str) -> ImageReference {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
#[rustfmt::skip]
fn a_reference_is_parsed_and_normalised_like_docker_does() {
    // written | registry | path | tag that counts
    for (written, registry, path, tag) in [
        ("nginx", "docker.io", "library/nginx", "latest"),
        ("nginx:1.27", "docker.io", "library/nginx", "1.27"),
        ("docker.io/nginx", "docker.io", "library/nginx", "latest"),
        ("index.docker.io/nginx", "docker.io", "library/nginx", "latest"),
        ("docker.io/library/nginx", "docker.io", "library/nginx", "latest"),
        ("library/nginx", "docker.io", "library/nginx", "latest"),
        ("harness/delegate:26.02.88404", "docker.io", "harness/delegate", "26.02.88404"),
        ("localhost/delegate", "localhost", "delegate", "latest"),
        ("localhost:5000/d:1", "localhost:5000", "d", "1"),
        ("localhost:5000", "docker.io", "library/localhost", "5000"),
        ("registry:5000/d", "registry:5000", "d", "latest"),
        ("registry/d", "docker.io", "registry/d", "latest"),
        ("registry.corp/d", "registry.corp", "d", "latest"),
        ("registry.corp/nginx", "registry.corp", "nginx", "latest"),
        ("Registry/d", "Registry", "d", "latest"),
        ("10.0.0.1:5000/a/b/c:x", "10.0.0.1:5000", "a/b/c", "x"),
        ("[::1]:5000/d:2", "[::1]:5000", "d", "2"),
        ("[fe80::1]/d", "[fe80::1]", "d", "latest"),
        ("a--b/c__d.e_f:V1.0_x-y", "docker.io", "a--b/c__d.e_f", "V1.0_x-y"),
        ("a:_", "docker.io", "library/a", "_"),
    ] {
        let read = reference(written);
        assert_eq!(read.registry(), registry, "{written}");
        assert_eq!(read.path(), path, "{written}");
        assert_eq!(read.tag(), Some(tag), "{written}");
        assert_eq!(read.digest(), None, "{written}");
        assert_eq!(read.to_string(), written, "shown as it was written");
        assert_eq!(read.normalised(), format!("{registry}/{path}:{tag}"), "{written}");
    }
}

#[test]
fn a_digest_is_kept_and_needs_no_tag() {
    let pinned = reference(&format!("harness/delegate@{DIGEST}"));
    assert_eq!(pinned.tag(), None);
    assert_eq!(pinned.digest(), Some(DIGEST));
    assert_eq!(
        pinned.normalised(),
        format!("docker.io/harness/delegate@{DIGEST}")
    );

    let both = reference(&format!("harness/delegate:1.2@{DIGEST}"));
    assert_eq!(both.tag(), Some("1.2"));
    assert_eq!(
        both.normalised(),
        format!("docker.io/harness/delegate:1.2@{DIGEST}")
    );
    assert_ne!(both, pinned);
}

#[test]
fn references_are_equal_when_they_mean_the_same() {
    let same = reference("docker.io/library/nginx:latest");
    for other in [
        "nginx",
        "nginx:latest",
        "docker.io/nginx",
        "index.docker.io/library/nginx",
    ] {
        assert_eq!(reference(other), same, "{other}");
    }
    for other in [
        "nginx:1",
        "nginx2",
        "quay.io/library/nginx",
        &format!("nginx@{DIGEST}"),
    ] {
        assert_ne!(reference(other), same, "{other}");
    }
}

#[test]
#[rustfmt::skip]
fn the_short_form_of_a_reference_omits_docker_defaults() {
    for (written, short) in [
        ("docker.io/library/nginx:1", "nginx:1"),
        ("index.docker.io/harness/delegate", "harness/delegate:latest"),
        ("docker.io/library/a/b", "library/a/b:latest"),
        ("quay.io/library/nginx:1", "quay.io/library/nginx:1"),
        // Shortened, they would have a different meaning.
        ("docker.io/localhost/x:1", "docker.io/localhost/x:1"),
        ("docker.io/a.b/c:1", "docker.io/a.b/c:1"),
        ("docker.io/sha256:5", "docker.io/library/sha256:5"),
        (&format!("docker.io/{}:1", "a".repeat(64)), &format!("docker.io/library/{}:1", "a".repeat(64))),
    ] {
        let known = manager_reference(&reference(written), &TargetSettings::default());
        assert_eq!(known.to_string(), short);
        assert_eq!(known, reference(written));
    }
}

#[test]
fn an_invalid_reference_is_refused_with_the_reason() {
    const EMPTY: &str = "it is empty";
    const IMAGE_ID: &str =
        "it is the id of a local image; name a repository, as in harness/delegate:26.02.88404";
    const SCHEME: &str = "it has a URL scheme; remove it";
    const REGISTRY: &str = "its registry is not a host name with an optional port";
    const CAPITALS: &str = "its path has capital letters; it must be lower-case";
    const PATH_TOO_LONG: &str = "its path is longer than 255 characters";
    const PATH: &str =
        "its path may have lower-case letters and digits, joined by single . _ / or by __ or dashes";
    const TAG: &str = "its tag may have up to 128 letters, digits, _ . and -, and must not start with . or -";
    const BAD_DIGEST: &str =
        "its digest is not sha256: and 64 lower-case hex digits (or sha384: and 96, sha512: and 128)";
    let hex = DIGEST.trim_start_matches("sha256:");
    let upper_digest = format!("d@sha256:{}", hex.to_uppercase());
    for (text, problem) in [
        ("", EMPTY),
        (DIGEST, IMAGE_ID),
        ("sha256:0123456789ab", IMAGE_ID),
        (hex, IMAGE_ID),
        ("https://registry.corp/d", SCHEME),
        ("Nginx", CAPITALS),
        ("registry.corp/Delegate", CAPITALS),
        (" ", PATH),
        ("a b", PATH),
        (" nginx", PATH),
        ("nginx\n", PATH),
        ("a/../b", PATH),
        ("a..b", PATH),
        ("../etc/passwd", REGISTRY),
        ("a//b", PATH),
        ("/a", PATH),
        ("a/", PATH),
        ("a._b", PATH),
        ("a___b", PATH),
        ("-a", PATH),
        ("a-", PATH),
        ("nginx\u{0}", PATH),
        ("nginx\u{1b}[2J", PATH),
        ("nginх", PATH), // a Cyrillic letter at the end
        ("a?b=c", PATH),
        ("a%2fb", PATH),
        (":tag", PATH),
        ("@", PATH),
        ("a:", TAG),
        ("a:-b", TAG),
        ("a:.b", TAG),
        ("a:b c", TAG),
        ("a:b\r\n", TAG),
        ("a:b\r\nX-Evil: 1", PATH),
        ("a:b:c", PATH),
        (&format!("a:{}", "t".repeat(129)), TAG),
        ("a@", BAD_DIGEST),
        ("a@sha256:12", BAD_DIGEST),
        ("a@md5:0123456789abcdef0123456789abcdef", BAD_DIGEST),
        (&upper_digest, BAD_DIGEST),
        (&format!("a@{DIGEST}@{DIGEST}"), BAD_DIGEST),
        ("host:port/a", REGISTRY),
        ("host:/a", REGISTRY),
        ("host:0/a", REGISTRY),
        ("host:65536/a", REGISTRY),
        ("host:+80/a", REGISTRY),
        ("-host.corp/a", REGISTRY),
        ("host..corp/a", REGISTRY),
        ("[::1/a", REGISTRY),
        ("[zz:]/a", REGISTRY),
        ("us er@host:1/a", PATH),
        (&"a/".repeat(200), PATH_TOO_LONG),
        (&"a".repeat(1 << 20), PATH_TOO_LONG),
        (&format!("{}.corp/a", "h".repeat(300)), REGISTRY),
    ] {
        let refused = text.parse::<ImageReference>().map_err(|error| error.problem);
        assert_eq!(refused, Err(problem), "{text:.80?}");
    }
}

#[test]
fn accepts_longest_tag_and_path() {
    reference(&format!("a:{}", "t".repeat(128)));
    reference(&format!("quay.io/{}", "a".repeat(255)));
}

#[test]
fn an_error_can_be_printed_whatever_was_given() {
    let hostile = format!("\u{1b}[2Ja\n{}", "x".repeat(10_000));
    let error = hostile.parse::<ImageReference>().unwrap_err().to_string();
    assert!(!error.contains(char::is_control), "{error}");
    assert!(error.chars().count() < 400, "{error}");

    assert_eq!(
        "Harness/delegate:1 "
            .parse::<ImageReference>()
            .unwrap_err()
            .to_string(),
        "\"Harness/delegate:1 \" is not an image reference: its tag may have up to 128 letters, digits, _ . and -, \
         and must not start with . or -"
    );
}

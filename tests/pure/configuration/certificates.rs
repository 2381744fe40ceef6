//! Files with certificates and keys: their contents are checked at start, whether or not a connection needs them.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use super::{BASE, Vars, errors, settings};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls/");
const CERTIFICATES: &str = "expected the path of a PEM file with one or more certificates";
const CHAIN: &str = "expected the path of a PEM file with a certificate and the chain behind it";
const KEY: &str = "expected the path of a PEM file with the private key of CLIENT_CERT, not encrypted";
/// Base64 that no output may show.
const SECRET: &str = "aHVudGVyMi1odW50ZXIyLWh1bnRlcjI=";

fn fixture(name: &str) -> String {
    format!("{FIXTURES}{name}")
}

/// A Manager over TLS, a Manager without TLS, and no Manager: a file matters only in the first case.
const SOURCES: [Vars<'static>; 3] = [
    &[],
    &[("MANAGER_HOST_AND_PORT", "http://manager.example")],
    &[
        ("PUBLISHED_IMAGE", "harness/delegate:26.02.88404"),
        ("ACCOUNT_ID", ""),
        ("MANAGER_HOST_AND_PORT", ""),
        ("UPGRADER_TOKEN", ""),
    ],
];

#[test]
fn accepts_certificates_with_a_matching_key() {
    let (authority, own) = (fixture("ca.pem"), fixture("own.pem"));
    let (certificate, of_version_1) = (fixture("client.pem"), fixture("client-of-version-1.pem"));
    let key = fixture("client.key");
    for source in SOURCES {
        for (bundle, certificate) in [(&authority, &certificate), (&own, &of_version_1)] {
            let files: Vars<'_> = &[
                ("CA_BUNDLE", bundle),
                ("CLIENT_CERT", certificate),
                ("CLIENT_KEY", &key),
            ];
            let settings = settings(&[source, files].concat());
            assert_eq!(settings.egress.ca_bundle, Some(bundle.into()));
            assert_eq!(
                settings.egress.client_identity,
                Some((certificate.into(), (&key).into()))
            );
        }
    }
}

#[test]
#[rustfmt::skip]
fn rejects_file_without_its_content_even_if_unused() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let section = |kind: &str, body: &str| format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n");
    let empty = write("empty", "");
    let garbage = write("garbage", &format!("no PEM at all: {SECRET}\n"));
    let cut_off = write("cut-off", &format!("-----BEGIN CERTIFICATE-----\n{SECRET}\n"));
    let no_base64 = write("no-base64", &section("CERTIFICATE", "hunter2!"));
    let no_der = write("no-der", &section("CERTIFICATE", SECRET));
    let one_line = write(
        "one-line",
        &format!("-----BEGIN PRIVATE KEY-----{SECRET}-----END PRIVATE KEY-----"),
    );
    let no_key = write("no-key", &section("PRIVATE KEY", SECRET));
    let encrypted = write("encrypted", &section("ENCRYPTED PRIVATE KEY", SECRET));
    let old_encrypted = format!("Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n{SECRET}");
    let old_encrypted = write("old-encrypted", &section("RSA PRIVATE KEY", &old_encrypted));
    let half = format!(
        "{}{}",
        fs::read_to_string(fixture("ca.pem")).unwrap(),
        section("CERTIFICATE", SECRET)
    );
    let half = write("half", &half);
    let (certificate, key, other_key) = (
        fixture("client.pem"),
        fixture("client.key"),
        fixture("server.key"),
    );

    let bundle = "CA_BUNDLE";
    let (cert, private) = ("CLIENT_CERT", "CLIENT_KEY");
    let (no_certificate, no_private_key) = (
        "it has no certificate in PEM format",
        "it has no private key in PEM format",
    );
    let cases: &[(&str, &str, &str, &str)] = &[
        (bundle, &empty, no_certificate, CERTIFICATES),
        (bundle, &garbage, no_certificate, CERTIFICATES),
        (bundle, &key, no_certificate, CERTIFICATES),
        (bundle, &cut_off, "it is not in PEM format", CERTIFICATES),
        (bundle, &no_base64, "it is not in PEM format", CERTIFICATES),
        (bundle, &one_line, "it is not in PEM format", CERTIFICATES),
        (bundle, &no_der, "certificate 1 of 1 cannot be used: ", CERTIFICATES),
        (bundle, &half, "certificate 2 of 2 cannot be used: ", CERTIFICATES),
        (cert, &empty, no_certificate, CHAIN),
        (cert, &key, no_certificate, CHAIN),
        (cert, &no_der, "its first certificate cannot be used: ", CHAIN),
        (private, &empty, no_private_key, KEY),
        (private, &certificate, no_private_key, KEY),
        (private, &one_line, no_private_key, KEY),
        (private, &no_key, "its private key cannot be used: RSA, ECDSA", KEY),
        (private, &encrypted, "its private key is encrypted", KEY),
        (private, &old_encrypted, "its private key is encrypted", KEY),
        (private, &other_key, "its private key does not belong to the certificate in CLIENT_CERT", KEY),
    ];
    for source in SOURCES {
        for (variable, path, why, expected) in cases {
            let mut files = vec![
                ("CA_BUNDLE", fixture("ca.pem")),
                ("CLIENT_CERT", certificate.clone()),
                ("CLIENT_KEY", key.clone()),
            ];
            for (name, value) in &mut files {
                if name == variable {
                    (*path).clone_into(value);
                }
            }
            let files: Vec<(&str, &str)> = files.iter().map(|(name, path)| (*name, path.as_str())).collect();
            let errors = errors(&[source, &files].concat());
            let text = errors.to_string();
            let [problem] = &errors.problems[..] else {
                panic!("{variable}={path}: {text}");
            };
            assert_eq!(problem.variable, *variable, "{text}");
            assert!(problem.given.starts_with(&format!("{path}: {why}")), "{text}");
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains(SECRET) && !text.contains("hunter2"), "{text}");
        }
    }
}

#[test]
fn reports_all_wrong_files_at_once_with_exit_code_78() {
    let output = Command::new(env!("CARGO_BIN_EXE_delegate-upgrader"))
        .env_clear()
        .envs(BASE.iter().copied())
        .env("MANAGER_HOST_AND_PORT", "http://manager.example")
        .env("LOG_FORMAT", "xml")
        .env("CA_BUNDLE", "/dev/null")
        .env("CLIENT_CERT", fixture("client.key"))
        .env("CLIENT_KEY", fixture("client.pem"))
        .arg("run")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{text}");
    for line in [
        "CA_BUNDLE: /dev/null: it has no certificate",
        "CLIENT_CERT: /",
        "CLIENT_KEY: /",
        "LOG_FORMAT: ",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// The files of a Docker client with access to an engine.
pub(super) fn docker_certificates(directory: &Path) {
    for (name, content) in [
        ("ca.pem", "ca.pem"),
        ("cert.pem", "client.pem"),
        ("key.pem", "client.key"),
    ] {
        fs::copy(fixture(content), directory.join(name)).unwrap();
    }
}

#[test]
#[rustfmt::skip]
fn checks_engine_certificates_at_startup_and_names_each_bad_file() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let docker: Vars<'_> = &[
        ("DOCKER_HOST", "tcp://host"),
        ("DOCKER_TLS_VERIFY", "1"),
        ("DOCKER_CERT_PATH", directory.to_str().unwrap()),
    ];
    docker_certificates(directory);
    settings(docker);
    // A self-signed certificate also counts.
    fs::copy(fixture("own.pem"), directory.join("ca.pem")).unwrap();
    settings(docker);
    let garbage = format!("-----BEGIN CERTIFICATE-----\n{SECRET}\n-----END CERTIFICATE-----\n{SECRET}");
    let other_key = fs::read_to_string(fixture("server.key")).unwrap();
    let cases: &[(&str, &str, &str)] = &[
        ("ca.pem", "", "it has no certificate in PEM format"),
        ("ca.pem", &garbage, "certificate 1 of 1 cannot be used: "),
        ("cert.pem", SECRET, "it has no certificate in PEM format"),
        ("cert.pem", &garbage, "its first certificate cannot be used: "),
        ("key.pem", &garbage, "it has no private key in PEM format"),
        ("key.pem", &other_key, "its private key does not belong to the certificate in cert.pem"),
    ];
    let assert_refused = |expected: &[String]| {
        // The problem is reported in addition to any other.
        let errors = errors(&[docker, &[("LOG_FORMAT", "xml")]].concat());
        let text = errors.to_string();
        assert_eq!(errors.problems.len(), 2, "{text}");
        assert!(
            text.contains("DOCKER_CERT_PATH: ") && !text.contains(SECRET),
            "{text}"
        );
        for expected in expected {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    };
    for (name, content, why) in cases {
        docker_certificates(directory);
        let file = directory.join(name);
        fs::write(&file, content).unwrap();
        assert_refused(&[format!("{}: {why}", file.display())]);
    }
    let all = ["ca.pem", "cert.pem", "key.pem"].map(|name| {
        fs::write(directory.join(name), SECRET).unwrap();
        format!("{}: it has no", directory.join(name).display())
    });
    assert_refused(&all);
}

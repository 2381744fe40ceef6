//! The way to the Manager through real forward proxies, TLS and client certificates.

use std::thread::scope;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use kit::lab::servers::{
    Server, asking, fixture, manager, nginx, squid, stunnel, tinyproxy, unknown_certificate,
};
use kit::lab::{Lab, PATIENCE, Run, Upgrader, V1, V2, eventually, image, image_of};

const USER: &str = "delegate+upgrader";
/// Contains characters that are special in a URL and in base64, and an apparent escape.
const PASSWORD: &str = "p~a>s?s+/@:%41";
const USER_IN_URL: &str = "delegate%2Bupgrader";
const PASSWORD_IN_URL: &str = "p~a%3Es%3Fs%2B%2F%40%3A%2541";
/// For tinyproxy, which accepts no special characters.
const PLAIN_USER: &str = "upgrader";
const PLAIN_PASSWORD: &str = "s3cr3t-word";
const WRONG: &str = "hunter2-hunter2";

fn certified() -> (String, String) {
    (fixture("server.pem"), fixture("server.key"))
}

/// The URLs of a Manager and of the same Manager behind TLS.
fn both_ways(manager: &Server, tls: &Server) -> [String; 2] {
    [manager.url(), format!("https://{}", tls.address())]
}

fn with_parts(upgrader: Upgrader, proxy: &Server, user: &str, password: &str) -> Upgrader {
    upgrader
        .with("PROXY_HOST", "127.0.0.1")
        .with("PROXY_PORT", &proxy.port.to_string())
        .with("PROXY_USER", user)
        .with("PROXY_PASSWORD", password)
}

fn with_identity(upgrader: Upgrader) -> Upgrader {
    upgrader
        .with("CLIENT_CERT", &fixture("client.pem"))
        .with("CLIENT_KEY", &fixture("client.key"))
}

/// The requests in a proxy's log. The log also has the check whether the proxy listens, without a request.
fn requests(proxy: &Server) -> Vec<String> {
    let log = proxy.read("access.log");
    let is_request = |line: &&str| line.contains("GET http://") || line.contains("CONNECT 127.0.0.1:");
    log.lines().filter(is_request).map(str::to_owned).collect()
}

/// The log in the end: a proxy notes a tunnel when it closes.
fn logged(count: usize, mut read: impl FnMut() -> Vec<String>) -> Vec<String> {
    eventually("the proxy's log has it", PATIENCE, || read().len() >= count);
    read()
}

/// The number of requests that reached the Manager.
fn questions(manager: &Server) -> usize {
    manager.read("output").matches(" -> ").count()
}

fn assert_answered(run: &Run) {
    assert_eq!(run.code, Some(0), "{}", run.text);
    run.says(&image(V2));
}

/// The run says so on one line, and gives no other reason for the missing answer.
fn assert_reports(run: &Run, words: &[&str]) {
    assert_eq!(run.code, Some(1), "{}", run.text);
    let lines: Vec<&str> = run
        .text
        .lines()
        .filter(|line| line.contains("cannot determine the published image"))
        .collect();
    let [line] = lines[..] else {
        panic!("one line, not {}:\n{}", lines.len(), run.text)
    };
    for words in words {
        assert!(line.contains(words), "{words:?} is not in:\n{}", run.text);
    }
}

fn assert_no_secret(run: &Run) {
    for (user, password) in [(USER, PASSWORD), (USER, WRONG), (PLAIN_USER, PLAIN_PASSWORD)] {
        let encoded = STANDARD.encode(format!("{user}:{password}"));
        for secret in [password, PASSWORD_IN_URL, &encoded] {
            run.never_says(secret);
        }
    }
}

#[test]
fn works_through_an_authenticated_proxy_by_http_and_https() {
    let lab = Lab::new("proxy");
    lab.delegate("1", V1, &[]);
    let manager = manager(V2);
    let (certificate, key) = certified();
    let tls = nginx(&manager.address(), (&certificate, &key), None);
    let (squid, tinyproxy) = (squid(USER, PASSWORD), tinyproxy(PLAIN_USER, PLAIN_PASSWORD));
    let squid_url = format!("http://{USER_IN_URL}:{PASSWORD_IN_URL}@{}", squid.address());
    let tinyproxy_url = format!("http://{PLAIN_USER}:{PLAIN_PASSWORD}@{}", tinyproxy.address());
    let [http, https] = both_ways(&manager, &tls);
    let asking = |url| {
        asking(&lab, url)
            .with("CA_BUNDLE", &fixture("ca.pem"))
            .with("LOG_LEVEL", "trace")
    };
    let squid_parts = |url| with_parts(asking(url), &squid, USER, PASSWORD);
    let tinyproxy_parts = |url| with_parts(asking(url), &tinyproxy, PLAIN_USER, PLAIN_PASSWORD);
    let ways = [
        (&squid, &http, squid_parts(&http)),
        (&squid, &https, squid_parts(&https)),
        (&squid, &http, asking(&http).with("HTTPS_PROXY", &squid_url)),
        (&squid, &https, asking(&https).with("HTTPS_PROXY", &squid_url)),
        (&squid, &https, asking(&https).with("https_proxy", &squid_url)),
        (&tinyproxy, &http, tinyproxy_parts(&http)),
        (&tinyproxy, &https, tinyproxy_parts(&https)),
        (
            &tinyproxy,
            &http,
            asking(&http).with("HTTPS_PROXY", &tinyproxy_url),
        ),
        (
            &tinyproxy,
            &https,
            asking(&https).with("HTTPS_PROXY", &tinyproxy_url),
        ),
    ];
    for (number, (proxy, manager_url, upgrader)) in ways.into_iter().enumerate() {
        let before = requests(proxy).len();
        let run = upgrader.run(&["plan"]);
        assert_answered(&run);
        assert_no_secret(&run);
        assert_eq!(questions(&manager), number + 1);
        let through = logged(1, || requests(proxy).split_off(before));
        let [request] = &through[..] else {
            panic!("one request, not {through:#?}")
        };
        let expected = manager_url.strip_prefix("https://").map_or_else(
            || format!("GET {manager_url}/api/upgrade-check/delegate?"),
            |address| format!("CONNECT {address} "),
        );
        assert!(request.contains(&expected), "{expected:?}: {request}");
    }
    let known = squid.read("access.log").matches(USER).count();
    assert_eq!(known, 5, "{}", squid.read("access.log"));
}

#[test]
fn reports_wrong_proxy_login_without_retry() {
    let lab = Lab::new("proxy-login");
    lab.delegate("1", V1, &[]);
    let manager = manager(V2);
    let (certificate, key) = certified();
    let tls = nginx(&manager.address(), (&certificate, &key), None);
    let (squid, tinyproxy) = (squid(USER, PASSWORD), tinyproxy(PLAIN_USER, PLAIN_PASSWORD));
    let [http, https] = both_ways(&manager, &tls);
    let asking = |url| asking(&lab, url).with("CA_BUNDLE", &fixture("ca.pem"));
    let bare = |url, proxy: &Server| asking(url).with("HTTPS_PROXY", &proxy.url());
    for (proxy, upgrader) in [
        (&squid, with_parts(asking(&http), &squid, USER, WRONG)),
        (&squid, with_parts(asking(&https), &squid, USER, WRONG)),
        (&squid, bare(&http, &squid)),
        (&squid, bare(&https, &squid)),
        (
            &tinyproxy,
            with_parts(asking(&http), &tinyproxy, PLAIN_USER, WRONG),
        ),
        (&tinyproxy, bare(&https, &tinyproxy)),
    ] {
        let before = requests(proxy).len();
        let run = upgrader.run(&["once"]);
        assert_reports(
            &run,
            &["the proxy rejected the login", "PROXY_USER and PROXY_PASSWORD"],
        );
        assert_no_secret(&run);
        let asked = logged(1, || requests(proxy).split_off(before));
        assert_eq!(asked.len(), 1, "{asked:#?}");
    }
    let doctor = with_parts(asking(&http), &squid, USER, WRONG)
        .with("LOG_LEVEL", "trace")
        .run(&["doctor"]);
    assert_no_secret(&doctor);
    doctor.says("FAIL  manager        the proxy rejected the login");
    doctor.never_says("clock");
    // For a tunnel, the proxy answers with 401 and gives no reason.
    let run = with_parts(asking(&https), &tinyproxy, PLAIN_USER, WRONG).run(&["plan"]);
    assert_reports(&run, &["the proxy cannot connect", "PROXY_USER, PROXY_PASSWORD"]);
    assert_no_secret(&run);
    assert_eq!(questions(&manager), 0, "{}", manager.read("output"));
}

#[test]
fn no_proxy_bypasses_the_proxy_for_the_manager() {
    let lab = Lab::new("no-proxy");
    lab.delegate("1", V1, &[]);
    let manager = manager(V2);
    let (certificate, key) = certified();
    let tls = nginx(&manager.address(), (&certificate, &key), None);
    let squid = squid(USER, PASSWORD);
    let [http, https] = both_ways(&manager, &tls);
    let asking = |url, name, exceptions| {
        let upgrader = asking(&lab, url).with("CA_BUNDLE", &fixture("ca.pem"));
        with_parts(upgrader, &squid, USER, PASSWORD).with(name, exceptions)
    };
    for (url, name, exceptions) in [
        (&http, "NO_PROXY", "127.0.0.1"),
        (&http, "no_proxy", "10.0.0.0/8, 127.0.0.0/8"),
        (&https, "NO_PROXY", "manager.example,127.0.0.1"),
    ] {
        assert_answered(&asking(url, name, exceptions).run(&["plan"]));
        assert_eq!(requests(&squid), Vec::<String>::new(), "{name}={exceptions}");
    }
    // Only the proxy knows this name: without the proxy, "no such host" comes after half a minute.
    let named = format!("http://manager.example:{}", manager.port);
    scope(|scope| {
        for exceptions in ["example.com,manager.example", "*"] {
            let upgrader = asking(&named, "NO_PROXY", exceptions);
            scope.spawn(move || assert_reports(&upgrader.run(&["plan"]), &["no address of manager.example"]));
        }
    });
    assert_eq!(requests(&squid), Vec::<String>::new());
    assert_answered(&asking(&named, "NO_PROXY", "example.com,anager.example").run(&["plan"]));
    assert_eq!(logged(1, || requests(&squid)).len(), 1);
}

#[test]
fn ca_bundle_adds_a_private_ca_to_the_system_ones() {
    let lab = Lab::new("ca");
    lab.delegate("1", V1, &[]);
    let manager = manager(V2);
    let (certificate, key) = certified();
    let tls = nginx(&manager.address(), (&certificate, &key), None);
    let (ours, other) = (fixture("ca.pem"), fixture("other-ca.pem"));
    let https = format!("https://{}", tls.address());
    let asking = |url: &str, bundle: Option<&str>, system: Option<&str>| {
        let mut upgrader = asking(&lab, url);
        for (name, value) in [("CA_BUNDLE", bundle), ("SSL_CERT_FILE", system)] {
            if let Some(value) = value {
                upgrader = upgrader.with(name, value);
            }
        }
        upgrader.run(&["plan"])
    };
    let no_trust = &[
        "no trusted TLS connection",
        "UnknownIssuer",
        "add a private CA to CA_BUNDLE",
    ];
    assert_reports(&asking(&https, None, None), no_trust);
    assert_answered(&asking(&https, Some(&ours), None));
    // The system's certificates are still trusted.
    assert_answered(&asking(&https, None, Some(&ours)));
    assert_answered(&asking(&https, Some(&other), Some(&ours)));
    assert_answered(&asking(&https, Some(&ours), Some(&other)));
    assert_reports(&asking(&https, Some(&other), Some(&other)), no_trust);
    assert_eq!(questions(&manager), 4);
}

#[test]
fn a_missing_client_certificate_is_distinguished_from_an_untrusted_manager() {
    let lab = Lab::new("mtls");
    lab.delegate("1", V1, &[]);
    let manager = manager(V2);
    let (certificate, key) = certified();
    let ca = fixture("ca.pem");
    let directory = tempfile::tempdir().expect("a directory");
    let (wrong, wrong_key) = unknown_certificate(directory.path());
    // nginx reports it by HTTP, stunnel by TLS.
    for tls in [
        nginx(&manager.address(), (&certificate, &key), Some(&ca)),
        stunnel(&manager.address(), Some(&ca)),
    ] {
        let upgrader = asking(&lab, &format!("https://{}", tls.address())).with("CA_BUNDLE", &ca);
        let what_to_do = &["client certificate", "CLIENT_CERT and CLIENT_KEY"];
        let before = questions(&manager);
        assert_reports(&upgrader.run(&["once"]), what_to_do);
        let other = upgrader
            .clone()
            .with("CLIENT_CERT", &wrong)
            .with("CLIENT_KEY", &wrong_key);
        assert_reports(&other.run(&["plan"]), what_to_do);
        assert_eq!(questions(&manager), before);
        assert_answered(&with_identity(upgrader).run(&["plan"]));
        assert_eq!(questions(&manager), before + 1);
    }
    // OpenSSL 3.0 makes such certificates with the commands of Harness's manual.
    let old = fixture("client-of-version-1.pem");
    let tls = nginx(&manager.address(), (&certificate, &key), Some(&old));
    let upgrader = asking(&lab, &format!("https://{}", tls.address())).with("CA_BUNDLE", &ca);
    let upgrader = with_identity(upgrader).with("CLIENT_CERT", &old);
    assert_answered(&upgrader.run(&["plan"]));
}

#[test]
fn upgrades_through_a_tls_proxy_to_a_manager_requiring_a_client_certificate() {
    let lab = Lab::new("all-the-way");
    let name = lab.delegate("1", V1, &[]);
    let manager = manager(V2);
    let (certificate, key) = certified();
    let ca = fixture("ca.pem");
    let tls = nginx(&manager.address(), (&certificate, &key), Some(&ca));
    let squid = squid(USER, PASSWORD);
    let tls_of_proxy = stunnel(&squid.address(), None);
    let upgrader = asking(&lab, &format!("https://{}", tls.address())).with("CA_BUNDLE", &ca);
    let upgrader = with_parts(with_identity(upgrader), &tls_of_proxy, USER, PASSWORD)
        .with("PROXY_SCHEME", "https")
        .with("PROXY_HOST", "127.0.0.1");
    assert_answered(&upgrader.run(&["doctor"]));
    let run = upgrader.run(&["once"]).ended(0);
    assert_no_secret(&run);
    assert_eq!((lab.names(), image_of(&name)), (vec!["1".to_owned()], image(V2)));
    // A tunnel is logged when it closes: one for each command.
    let tunnels = logged(2, || requests(&squid));
    assert!(
        tunnels.len() >= 2
            && tunnels
                .iter()
                .all(|line| line.contains("TCP_TUNNEL/200") && line.contains(USER)),
        "{tunnels:#?}"
    );
    let asked = tls.read("access.log");
    assert!(asked.contains("/api/upgrade-check/delegate-v2"), "{asked}");
}

//! The account for each registry, and how it reaches the engine.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use delegate_upgrader::engine::{
    ConfigFile, Credentials, DockerEngine, Engine as _, EngineError, EngineHost, StaticCredentials,
};
use delegate_upgrader::image::ImageReference;
use delegate_upgrader::text::secret::Secret;
use serde_json::{Value, json};

use super::scripted::{ScriptedEngine, answer, refusal};

/// Encodes to `+` and `/` in the standard alphabet.
const AWKWARD: &str = "~>?~~>>??~\u{ff}\u{fe}";
const NO_LOGIN: &str = "no basic auth credentials";

fn given(password: &str, registries: &[&str]) -> Credentials {
    let own = StaticCredentials {
        username: "ci".to_owned(),
        password: Secret::new(password),
        registries: registries.iter().map(ToString::to_string).collect(),
    };
    Credentials {
        own: Some(own),
        file: None,
    }
}

fn file(directory: &Path, config: &str) -> Credentials {
    let path = directory.join("config.json");
    fs::write(&path, config).unwrap();
    let file = Some(ConfigFile { path, named: true });
    Credentials { own: None, file }
}

fn image(registry: &str) -> ImageReference {
    format!("{registry}/x:1").parse().unwrap()
}

/// The login in the header, as an engine reads it.
fn decoded(header: &str) -> Value {
    serde_json::from_slice(&URL_SAFE.decode(header).unwrap()).unwrap()
}

/// The header of a request about an image at a registry.
async fn asked_with(credentials: &Credentials, registry: &str) -> Option<String> {
    let engine = ScriptedEngine::start(|_| answer(200, "{}")).await;
    let docker = engine.client(credentials);
    docker.distribution(&image(registry)).await.unwrap();
    engine.last_call().credentials
}

/// The header of a pull.
async fn pulled_with(credentials: &Credentials, registry: &str) -> String {
    let engine = ScriptedEngine::start(|_| answer(200, r#"{"status":"Pulling"}"#)).await;
    let docker = engine.client(credentials);
    docker.pull(&image(registry), None, |_| {}).await.unwrap();
    let headers = engine.calls().into_iter().filter_map(|call| call.credentials);
    headers.collect::<Vec<_>>().pop().unwrap()
}

/// The login that the engine gets for a registry.
async fn login(credentials: &Credentials, registry: &str) -> Option<Value> {
    let header = asked_with(credentials, registry).await?;
    Some(decoded(&header))
}

async fn username(credentials: &Credentials, registry: &str) -> Option<String> {
    let login = login(credentials, registry).await?;
    Some(login["username"].as_str().unwrap().to_owned())
}

/// The outcome of a request to a registry that refuses it in these words.
async fn refused(credentials: &Credentials, registry: &str, message: &'static str) -> EngineError {
    let engine = ScriptedEngine::start(move |_| refusal(500, message)).await;
    let docker = engine.client(credentials);
    docker.distribution(&image(registry)).await.unwrap_err()
}

/// The reported problem with the login of a registry that requires one.
async fn problem(credentials: &Credentials, registry: &str) -> Option<String> {
    match refused(credentials, registry, NO_LOGIN).await {
        EngineError::Unauthorized(words) => Some(
            words
                .strip_prefix(&format!("the engine refused (500): {NO_LOGIN}; "))
                .unwrap()
                .to_owned(),
        ),
        EngineError::Refused { .. } => None,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn sends_a_login_only_to_its_own_registries() {
    let mirror = given("secret", &["mirror.example:5000"]);
    assert_eq!(
        login(&mirror, "mirror.example:5000").await,
        Some(json!({ "username": "ci", "password": "secret", "serveraddress": "mirror.example:5000" }))
    );
    assert_eq!(login(&mirror, "elsewhere.example").await, None);
    let everywhere = given("secret", &[]);
    assert_eq!(
        username(&everywhere, "elsewhere.example").await.as_deref(),
        Some("ci")
    );
    // Docker Hub has its historic address.
    let hub = login(&everywhere, "docker.io").await.unwrap();
    assert_eq!(hub["serveraddress"], "https://index.docker.io/v1/");
}

#[tokio::test]
async fn awkward_passwords_are_sent_in_url_safe_base64() {
    let credentials = given(AWKWARD, &[]);
    for header in [
        asked_with(&credentials, "registry.example:5000").await.unwrap(),
        pulled_with(&credentials, "registry.example:5000").await,
    ] {
        assert!(!header.contains(['+', '/']), "{header}");
        assert!(
            STANDARD
                .encode(URL_SAFE.decode(&header).unwrap())
                .contains(['+', '/']),
            "the case must be one that fails in the other alphabet"
        );
        let login = decoded(&header);
        assert_eq!(login["password"], AWKWARD);
        assert_eq!(login["serveraddress"], "registry.example:5000");
    }
}

#[tokio::test]
async fn sends_an_identity_token_instead_of_a_login() {
    let directory = tempfile::tempdir().unwrap();
    let credentials = file(
        directory.path(),
        r#"{"auths": {"r.example": {"auth": "dTo=", "identitytoken": "tok"}}}"#,
    );
    let expected = json!({ "identitytoken": "tok", "serveraddress": "r.example" });
    assert_eq!(login(&credentials, "r.example").await, Some(expected));
    let pulled = pulled_with(&credentials, "r.example").await;
    assert_eq!(decoded(&pulled)["identitytoken"], "tok");
}

#[tokio::test]
async fn a_login_is_found_for_every_spelling_of_its_registry() {
    let directory = tempfile::tempdir().unwrap();
    let auth = |text: &str| json!({ "auth": STANDARD.encode(text) });
    let config = json!({
        "auths": {
            "https://index.docker.io/v1/": auth("hub:h"),
            "registry.example:5000": auth("r:pass:with:colons~>?+/"),
            "https://with-scheme.example/v2/": auth("s:s"),
            "zeros.example": auth("z:z\0\0"),
            "plain.example": { "username": "p", "password": "w" },
            "of.a-domain.example": auth("o:o"),
            "in-a-helper.example": {},
        },
        "HttpHeaders": { "User-Agent": "Docker-Client" },
    });
    let credentials = file(directory.path(), &config.to_string());
    for (registry, username, password) in [
        ("docker.io", "hub", "h"),
        ("registry.example:5000", "r", "pass:with:colons~>?+/"),
        ("with-scheme.example", "s", "s"),
        ("zeros.example", "z", "z"),
        ("plain.example", "p", "w"),
    ] {
        let found = login(&credentials, registry).await.unwrap();
        assert_eq!(
            (&found["username"], &found["password"]),
            (&json!(username), &json!(password)),
            "{registry}"
        );
    }
    for registry in [
        "registry.example",
        "registry.example:5001",
        "in-a-helper.example",
        "a-domain.example",
    ] {
        assert_eq!(login(&credentials, registry).await, None, "{registry}");
    }
}

/// Whether a request and a pull succeed if the registry refuses every call with a login, and the number of all calls.
async fn public_image(credentials: &Credentials) -> (bool, bool, usize) {
    let refusals = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refusals);
    // The first call of each kind is the one with a login.
    let engine = ScriptedEngine::start(move |line| {
        let asks = line.contains("/distribution/") || line.starts_with("POST");
        if asks && count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return refusal(401, "unauthorized: authentication required");
        }
        answer(
            200,
            if line.starts_with("POST") {
                r#"{"status":"Pulling"}"#
            } else {
                "{}"
            },
        )
    })
    .await;
    let docker = engine.client(credentials);
    let asked = docker.distribution(&image("r.example")).await.is_ok();
    let pulled = docker.pull(&image("r.example"), None, |_| {}).await.is_ok();
    (asked, pulled, refusals.load(Ordering::Relaxed))
}

#[tokio::test]
async fn omits_a_stale_docker_login_if_none_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let stale = file(
        directory.path(),
        r#"{"auths": {"r.example": {"username": "old", "password": "p"}}}"#,
    );
    assert_eq!(public_image(&stale).await, (true, true, 4));
    // A login from the upgrader's own settings is never left out.
    let (asked, _, _) = public_image(&given("p", &[])).await;
    assert!(!asked);
}

#[tokio::test]
async fn a_registrys_own_helper_takes_precedence_over_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let config = r#"{"credHelpers": {"one.example": "of-one-registry"}, "credsStore": "of-all-others"}"#;
    let credentials = file(directory.path(), config);
    for (registry, helper) in [
        ("one.example", "docker-credential-of-one-registry, "),
        ("docker.io", "docker-credential-of-all-others, "),
    ] {
        let problem = problem(&credentials, registry).await.unwrap();
        assert!(problem.contains(helper), "{problem}");
    }
    assert_eq!(problem(&file(directory.path(), "{}"), "docker.io").await, None);
}

#[tokio::test]
async fn rereads_the_file_each_time_and_reports_errors_without_its_content() {
    let directory = tempfile::tempdir().unwrap();
    let credentials = file(
        directory.path(),
        r#"{"auths": {"a.example": {"auth": "dTE6cA=="}}}"#,
    );
    assert_eq!(username(&credentials, "a.example").await.as_deref(), Some("u1"));
    file(
        directory.path(),
        r#"{"auths": {"a.example": {"auth": "dTI6cA=="}}}"#,
    );
    assert_eq!(username(&credentials, "a.example").await.as_deref(), Some("u2"));
    file(directory.path(), r#"{"auths": "hunter2""#);
    assert_eq!(login(&credentials, "a.example").await, None);
    let error = problem(&credentials, "a.example").await.unwrap();
    assert!(
        error.contains("config.json is not what `docker login` writes") && !error.contains("hunter2"),
        "{error}"
    );
    fs::remove_file(directory.path().join("config.json")).unwrap();
    assert_eq!(login(&credentials, "a.example").await, None);
    assert_eq!(problem(&credentials, "a.example").await, None);
}

#[tokio::test]
#[rustfmt::skip]
async fn a_login_error_is_reported_only_if_a_login_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    for (config, expected) in [
        (r#"{"credsStore": "of-somewhere-else"}"#, "docker-credential-of-somewhere-else, which is not installed"),
        (r#"{"auths":"#, "is not what `docker login` writes"),
        (
            r#"{"auths": {"r.example": {"auth": "hunter2"}}}"#,
            "the login of r.example is not the base64 of user:password",
        ),
    ] {
        let credentials = file(directory.path(), config);
        assert_eq!(login(&credentials, "r.example").await, None);
        let unknown = EngineError::Refused {
            status: 500,
            message: "manifest unknown".to_owned(),
        };
        assert_eq!(
            refused(&credentials, "r.example", "manifest unknown").await,
            unknown
        );
        // The address contains a word with which registries refuse.
        let host = EngineHost::Unix(directory.path().join("access denied: docker.sock"));
        let away = DockerEngine::connect(&host, credentials.clone()).unwrap();
        let error = away.distribution(&image("r.example")).await.unwrap_err();
        assert!(
            matches!(&error, EngineError::Unreachable(why) if why.contains("denied:")),
            "{error}"
        );
        let problem = problem(&credentials, "r.example").await.unwrap();
        assert!(problem.contains(expected) && !problem.contains("hunter2"), "{problem}");
    }
}

#[tokio::test]
async fn the_files_own_login_is_used_if_the_helper_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let config = r#"{"credsStore": "of-somewhere-else", "auths": {"r.example": {"auth": "dTpw"}}}"#;
    let credentials = file(directory.path(), config);
    assert_eq!(username(&credentials, "r.example").await.as_deref(), Some("u"));
}

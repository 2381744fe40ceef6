//! Asks registries for the digest of a tag, since a cluster has no engine to ask.
//!
//! Each question ends within [`TIMEOUT`]. A login goes only to the registry, or to a token server below its name.

use std::net::Ipv4Addr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::app::MakeClient;
use crate::engine::Credentials;
use crate::image::ImageReference;
use crate::net::client::MAX_SHOWN;
use crate::net::retry::Retry;
use crate::net::without_request;
use crate::rollout::reason::Reason;
use crate::text::one_line;
use crate::text::secret::Secret;

/// The time limit for a question, including the request for a token.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer of a token server, in bytes. Amazon's tokens have a few thousand.
const LONGEST: usize = 256 * 1024;
/// An index comes first, since nodes of all platforms pull by its digest.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// A client of registries, with the credentials for them.
pub(crate) struct Registries {
    client: MakeClient,
    credentials: Credentials,
}

impl Registries {
    /// Creates the client. `client` must make an HTTP client for a URL that follows no redirects.
    pub(crate) fn new(credentials: Credentials, client: MakeClient) -> Self {
        Self { client, credentials }
    }

    /// Returns the digest of a tag, in the form of an engine's answer.
    ///
    /// # Errors
    /// The reason why the digest is unknown.
    pub(crate) async fn distribution(&self, image: &ImageReference) -> Result<Value, Reason> {
        let digest = timeout(TIMEOUT, self.digest(image)).await;
        let digest = digest.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs())));
        let unknown = |problem| Reason::DigestUnknown {
            image: image.to_string(),
            problem,
            retry: Retry::Later(None),
        };
        Ok(json!({ "Descriptor": { "digest": digest.map_err(unknown)? } }))
    }

    async fn digest(&self, image: &ImageReference) -> Result<String, String> {
        let (base, path) = (base_url(image.registry()), image.path());
        let tag = image.tag().ok_or("it has no tag")?;
        let url = format!("{base}/v2/{path}/manifests/{tag}");
        let client = (self.client)(&url)?;
        let head = || client.head(&url).header(ACCEPT, MANIFESTS);
        let mut answer = send(head()).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            let challenge = header(&answer, "www-authenticate").unwrap_or_default();
            let login = self.credentials.password(image.registry()).await;
            let login = login
                .map(|(user, password)| basic(&user, &password))
                .transpose()?;
            let authorization = match Challenge::read(challenge) {
                Challenge::Bearer { realm, service } => {
                    let realm = Url::parse(realm).ok();
                    let is_safe = |realm: &Url| realm.scheme() == "https" || is_local(image.registry());
                    let realm = realm
                        .filter(is_safe)
                        .ok_or("it names no token server with https")?;
                    let login = login.filter(|_| is_trusted(&realm, image.registry()));
                    self.token(realm, service, path, login).await?
                }
                Challenge::Basic => login.ok_or("it requires a login")?,
                Challenge::Other => return Err("it requires a login of an unknown kind".to_owned()),
            };
            answer = send(head().header(AUTHORIZATION, authorization)).await?;
        }
        if !answer.status().is_success() {
            return Err(format!("the registry answers {}", answer.status()));
        }
        let digest = header(&answer, "docker-content-digest");
        Ok(digest.ok_or("the registry names no digest")?.to_owned())
    }

    /// Returns the header with a token for pulling from this path.
    async fn token(
        &self,
        mut url: Url,
        service: &str,
        path: &str,
        login: Option<HeaderValue>,
    ) -> Result<HeaderValue, String> {
        let scope = format!("repository:{path}:pull");
        url.query_pairs_mut()
            .append_pair("service", service)
            .append_pair("scope", &scope);
        let mut request = (self.client)(url.as_str())?.get(url);
        if let Some(login) = login {
            request = request.header(AUTHORIZATION, login);
        }
        let mut answer = send(request).await?;
        if !answer.status().is_success() {
            return Err(format!("the token server answers {}", answer.status()));
        }
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(problem)? {
            text.extend_from_slice(&chunk);
            if text.len() > LONGEST {
                return Err("the token server's answer is too long".to_owned());
            }
        }
        let answer: Value = serde_json::from_slice(&text).unwrap_or_default();
        let token = answer["token"]
            .as_str()
            .or_else(|| answer["access_token"].as_str());
        secret_header(format!(
            "Bearer {}",
            token.ok_or("the token server sends no token")?
        ))
    }
}

/// The kind of login that a registry requests.
enum Challenge<'a> {
    Bearer { realm: &'a str, service: &'a str },
    Basic,
    Other,
}

impl<'a> Challenge<'a> {
    fn read(header: &'a str) -> Self {
        let (kind, parameters) = header.split_once(' ').unwrap_or((header, ""));
        let parameter = |name: &str| Some(parameters.split_once(&format!("{name}=\""))?.1.split_once('"')?.0);
        match parameter("realm") {
            Some(realm) if kind.eq_ignore_ascii_case("bearer") => Self::Bearer {
                realm,
                service: parameter("service").unwrap_or_default(),
            },
            _ if kind.eq_ignore_ascii_case("basic") => Self::Basic,
            _ => Self::Other,
        }
    }
}

/// Returns the base URL. As in Docker, a local registry needs no TLS, and Docker Hub has a special host name.
fn base_url(registry: &str) -> String {
    match registry {
        "docker.io" => "https://registry-1.docker.io".to_owned(),
        _ if is_local(registry) => format!("http://{registry}"),
        _ => format!("https://{registry}"),
    }
}

/// Returns the host of a registry, without its port.
fn host(registry: &str) -> &str {
    registry.rsplit_once(':').map_or(registry, |(host, _)| host)
}

fn is_local(registry: &str) -> bool {
    let host = host(registry);
    host == "localhost" || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
}

/// Whether a token server may receive the login of a registry: it has the registry's name or a name below it.
fn is_trusted(realm: &Url, registry: &str) -> bool {
    let (server, host) = (realm.host_str().unwrap_or_default(), host(registry));
    server == host || server.ends_with(&format!(".{host}"))
}

fn basic(user: &str, password: &Secret) -> Result<HeaderValue, String> {
    let login = BASE64_STANDARD.encode(format!("{user}:{}", password.expose()));
    secret_header(format!("Basic {login}"))
}

/// Marks the header as sensitive, so that logs do not show it.
fn secret_header(text: String) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(text).map_err(|_| "the token does not fit into a header")?;
    value.set_sensitive(true);
    Ok(value)
}

fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

async fn send(request: RequestBuilder) -> Result<Response, String> {
    request.send().await.map_err(problem)
}

fn problem(error: reqwest::Error) -> String {
    one_line(&without_request(&error.without_url()), MAX_SHOWN)
}

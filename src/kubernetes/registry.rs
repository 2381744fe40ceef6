//! Asks registries for the digest of a tag and for the release of an image, since a cluster has no engine to ask.
//!
//! A login goes only to the registry, or to a token server below its name.

use std::net::Ipv4Addr;
use std::time::Duration;

use reqwest::header::ACCEPT;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::app::MakeClient;
use crate::engine::Credentials;
use crate::image::ImageReference;
use crate::net::client::MAX_SHOWN;
use crate::net::retry::Retry;
use crate::net::without_request;
use crate::reconcile::questions::{Answer, Question};
use crate::rollout::reason::Reason;
use crate::text::one_line;
use crate::text::secret::Secret;

/// The time limit for a digest, including the request for a token.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for a release: `once`, `plan` and `doctor` wait for it.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest document, in bytes. Amazon's tokens have a few thousand, the configuration of a delegate's image twenty thousand.
const LONGEST: usize = 256 * 1024;
/// The most redirects to a document: registries keep images on other servers.
const REDIRECTS: usize = 3;
/// An index comes first, since nodes of all platforms pull by its digest.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json, */*";

/// A client of registries, with the credentials for them.
pub(crate) struct Registries {
    /// Makes an HTTP client for a URL that follows no redirects.
    pub(crate) client: MakeClient,
    pub(crate) credentials: Credentials,
}

impl Registries {
    /// Answers a question in the form of an engine's answer.
    pub(crate) async fn answer(&self, question: Question) -> Answer {
        match question {
            Question::Distribution(image) => {
                let digest = within(TIMEOUT, self.digest(&image)).await;
                let unknown = |problem| Reason::DigestUnknown {
                    image: image.to_string(),
                    problem,
                    retry: Retry::Later(None),
                };
                let distribution = |digest| json!({ "Descriptor": { "digest": digest } });
                Answer::Distribution(digest.map(distribution).map_err(unknown))
            }
            Question::Created(image) => Answer::Created(within(RELEASE_TIMEOUT, self.created(&image)).await),
            _ => Answer::Upgrader(None),
        }
    }

    async fn digest(&self, image: &ImageReference) -> Result<String, String> {
        let tag = image.tag().ok_or("it has no tag")?;
        let mut repository = self.repository(image)?;
        let answer = repository.ask(Method::HEAD, "manifests", tag).await?;
        let digest = header(&answer, "docker-content-digest");
        Ok(digest.ok_or("the registry names no digest")?.to_owned())
    }

    /// Returns when an image was built, as the configuration of its first platform says.
    async fn created(&self, image: &ImageReference) -> Result<Value, String> {
        let version = image.digest().or(image.tag()).ok_or("it has no tag")?;
        let mut repository = self.repository(image)?;
        let mut manifest = repository.document("manifests", version).await?;
        if let Some(digest) = manifest.pointer("/manifests/0/digest").and_then(Value::as_str) {
            manifest = repository.document("manifests", digest).await?;
        }
        let digest = manifest.pointer("/config/digest").and_then(Value::as_str);
        let digest = digest.ok_or("the registry names no configuration")?;
        let mut configuration = repository.document("blobs", digest).await?;
        Ok(configuration["created"].take())
    }

    fn repository<'a>(&'a self, image: &'a ImageReference) -> Result<Repository<'a>, String> {
        let base = format!("{}/v2/{}", base_url(image.registry()), image.path());
        Ok(Repository {
            registries: self,
            image,
            client: (self.client)(&base)?,
            base,
            access: None,
        })
    }
}

/// The proof that this account may pull.
enum Access {
    Login(String, Secret),
    Token(Secret),
}

struct Repository<'a> {
    registries: &'a Registries,
    image: &'a ImageReference,
    client: Client,
    base: String,
    /// The login or the token, once the registry has requested one.
    access: Option<Access>,
}

impl Repository<'_> {
    /// Asks, and logs in if the registry requests it. An answer may be a redirect.
    async fn ask(&mut self, method: Method, kind: &str, name: &str) -> Result<Response, String> {
        loop {
            let url = format!("{}/{kind}/{name}", self.base);
            let request = self.client.request(method.clone(), url).header(ACCEPT, MANIFESTS);
            let answer = send(request, self.access.as_ref()).await?;
            let status = answer.status();
            if status == StatusCode::UNAUTHORIZED && self.access.is_none() {
                self.access = Some(self.log_in(&answer).await?);
            } else if status.is_success() || status.is_redirection() {
                return Ok(answer);
            } else {
                return Err(format!("the registry answers {status}"));
            }
        }
    }

    /// Returns the login or the token that the registry requests with this answer.
    async fn log_in(&self, answer: &Response) -> Result<Access, String> {
        let registry = self.image.registry();
        let challenge = header(answer, "www-authenticate").unwrap_or_default();
        let (kind, parameters) = challenge.split_once(' ').unwrap_or((challenge, ""));
        let parameter = |name: &str| Some(parameters.split_once(&format!("{name}=\""))?.1.split_once('"')?.0);
        let login = self.registries.credentials.password(registry).await;
        let login = login.map(|(user, password)| Access::Login(user, password));
        match parameter("realm") {
            Some(realm) if kind.eq_ignore_ascii_case("bearer") => {
                let realm = Url::parse(realm).ok().filter(|realm| is_safe(realm, registry));
                let realm = realm.ok_or("it names no token server with https")?;
                let login = login.filter(|_| is_trusted(&realm, registry));
                let service = parameter("service").unwrap_or_default();
                self.token(realm, service, login).await
            }
            _ if kind.eq_ignore_ascii_case("basic") => Ok(login.ok_or("it requires a login")?),
            _ => Err("it requires a login of an unknown kind".to_owned()),
        }
    }

    async fn token(&self, mut url: Url, service: &str, login: Option<Access>) -> Result<Access, String> {
        let scope = format!("repository:{}:pull", self.image.path());
        url.query_pairs_mut()
            .append_pair("service", service)
            .append_pair("scope", &scope);
        let request = (self.registries.client)(url.as_str())?.get(url);
        let answer = send(request, login.as_ref()).await?;
        let answer = json_of("the token server", answer).await?;
        let token = answer["token"]
            .as_str()
            .or_else(|| answer["access_token"].as_str());
        let token = token.ok_or("the token server sends no token")?;
        Ok(Access::Token(Secret::new(token)))
    }

    /// Reads a document. The server that a redirect leads to gets no login.
    async fn document(&mut self, kind: &str, name: &str) -> Result<Value, String> {
        let mut answer = self.ask(Method::GET, kind, name).await?;
        for _ in 0..REDIRECTS {
            let Some(location) = header(&answer, "location") else {
                break;
            };
            let url = answer.url().join(location).ok();
            let url = url.filter(|url| is_safe(url, self.image.registry()));
            let url = url.ok_or("it redirects to no server with https")?;
            answer = send((self.registries.client)(url.as_str())?.get(url), None).await?;
        }
        json_of("the registry", answer).await
    }
}

async fn within<T>(limit: Duration, answer: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = |_| Err(format!("no answer within {} s", limit.as_secs()));
    timeout(limit, answer).await.unwrap_or_else(late)
}

/// Reads a JSON document; null if it is none.
async fn json_of(server: &str, mut answer: Response) -> Result<Value, String> {
    if !answer.status().is_success() {
        return Err(format!("{server} answers {}", answer.status()));
    }
    let mut text = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(problem)? {
        text.extend_from_slice(&chunk);
        if text.len() > LONGEST {
            return Err(format!("the answer of {server} is too long"));
        }
    }
    Ok(serde_json::from_slice(&text).unwrap_or_default())
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

/// Whether a server beside the registry may be asked.
fn is_safe(url: &Url, registry: &str) -> bool {
    url.scheme() == "https" || is_local(registry)
}

/// Whether a token server may receive the login of a registry: it has the registry's name or a name below it.
fn is_trusted(realm: &Url, registry: &str) -> bool {
    let (server, host) = (realm.host_str().unwrap_or_default(), host(registry));
    server == host || server.ends_with(&format!(".{host}"))
}

fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

async fn send(request: RequestBuilder, access: Option<&Access>) -> Result<Response, String> {
    let request = match access {
        Some(Access::Login(user, password)) => request.basic_auth(user, Some(password.expose())),
        Some(Access::Token(token)) => request.bearer_auth(token.expose()),
        None => request,
    };
    request.send().await.map_err(problem)
}

fn problem(error: reqwest::Error) -> String {
    one_line(&without_request(&error.without_url()), MAX_SHOWN)
}

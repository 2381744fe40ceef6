//! The variables that belong together: the Manager, logins, the way out, the engine.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use reqwest::Url;

use super::environment::{Environment, Variable};
use super::problems::Problems;
use super::{Egress, ManagerSettings, ProxySettings, RegistryLogin, Source, values};
use crate::engine::EngineHost;
use crate::image::ImageReference;
use crate::manager::DelegateToken;
use crate::text::secret::Secret;

const TOKEN: &str = "the delegate token: 32 hex digits, or the base64 of them that the Manager shows";
const READABLE: &str = "the path of a file that can be read";
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

pub(super) fn source(found: &mut Problems, env: &Environment, health_only: bool) -> Option<Source> {
    let manager = [
        &env.account_id,
        &env.manager_host_and_port,
        &env.upgrader_token,
        &env.upgrader_token_file,
    ];
    let any_given = manager
        .iter()
        .any(|variable| variable.is_set() || found.names(variable));
    if env.published_image.is_set() || found.names(&env.published_image) {
        if any_given {
            found.warn(
                &env.published_image,
                "set, so the Manager is not asked and its variables are not used",
            );
        }
        let parse = |text: &str| text.parse::<ImageReference>().map_err(|error| error.to_string());
        let accepted = "an image reference such as harness/delegate:26.02.88404";
        return found
            .read(&env.published_image, accepted, parse)
            .map(Source::Fixed);
    }
    if health_only && !any_given {
        return Some(Source::None);
    }

    let account_id = found.read(&env.account_id, "an account id", values::name);
    if account_id.is_none() {
        found.missing(&env.account_id, "the id of your Harness account");
    }
    let accepted = "the Manager's URL such as https://app.harness.io";
    let url = found.read(&env.manager_host_and_port, accepted, values::manager_url);
    match &url {
        Some((url, true)) => found.warn(
            &env.manager_host_and_port,
            format!("no scheme given, taken as {url}"),
        ),
        Some(_) => {}
        None => found.missing(&env.manager_host_and_port, accepted),
    }
    let token = match secret(found, &env.upgrader_token, &env.upgrader_token_file) {
        Given::Value(value, variable) => {
            let token = DelegateToken::parse(value.expose());
            if token.is_none() {
                found.problem(
                    variable,
                    "a value that is neither form of a token (it is not shown)",
                    TOKEN,
                );
            }
            token
        }
        Given::Wrong => None,
        Given::Not => {
            found.missing(&env.upgrader_token, TOKEN);
            None
        }
    };
    Some(Source::Manager(ManagerSettings {
        account_id: account_id?,
        base_url: url?.0,
        token: token?,
    }))
}

pub(super) fn registry(found: &mut Problems, env: &Environment) -> Option<RegistryLogin> {
    let username = env.registry_username.get();
    let username_wrong = found.names(&env.registry_username);
    match (
        username,
        secret(found, &env.registry_password, &env.registry_password_file),
    ) {
        (Some(username), Given::Value(password, _)) => Some(RegistryLogin {
            username: username.to_owned(),
            password,
        }),
        (Some(_), Given::Not) => {
            let accepted = "a password, or REGISTRY_PASSWORD_FILE, since REGISTRY_USERNAME is set";
            found.missing(&env.registry_password, accepted);
            None
        }
        (None, Given::Value(_, variable)) if !username_wrong => {
            found.missing(
                &env.registry_username,
                &format!("a user name, since {} is set", variable.name),
            );
            None
        }
        _ => None,
    }
}

/// Where every Docker client looks, too.
pub(super) fn docker_config(env: &Environment) -> Option<(PathBuf, bool)> {
    let named = env
        .docker_config
        .get()
        .map(|directory| (PathBuf::from(directory), true));
    let usual = || {
        env.home
            .get()
            .map(|home| (Path::new(home).join(".docker"), false))
    };
    named.or_else(usual)
}

pub(super) fn egress(found: &mut Problems, env: &Environment, source: Option<&Source>) -> Egress {
    let is_plain =
        matches!(source, Some(Source::Manager(manager)) if manager.base_url.starts_with("http://"));
    let egress = Egress {
        proxy: proxy(found, env, is_plain),
        no_proxy: env.no_proxy.get().map(str::to_owned),
        ca_bundle: readable(found, &env.ca_bundle),
        client_cert: readable(found, &env.client_cert),
        client_key: readable(found, &env.client_key),
    };
    for (missing, given) in [
        (&env.client_cert, &env.client_key),
        (&env.client_key, &env.client_cert),
    ] {
        if given.is_set() && !missing.is_set() {
            found.missing(missing, &format!("{READABLE}, since {} is set", given.name));
        }
    }
    egress
}

fn proxy(found: &mut Problems, env: &Environment, is_plain: bool) -> Option<ProxySettings> {
    let parts = [
        &env.proxy_scheme,
        &env.proxy_port,
        &env.proxy_user,
        &env.proxy_password,
    ];
    let scheme = found.read(&env.proxy_scheme, "http or https", |text| {
        values::word(text, &[("http", "http"), ("https", "https")])
    });
    let port = found.read(&env.proxy_port, "a port, 1 to 65535", values::port);
    let user = env.proxy_user.get();
    let password = env.proxy_password.verbatim();
    match (user, password) {
        (Some(_), None) => found.missing(&env.proxy_password, "a password, since PROXY_USER is set"),
        (None, Some(_)) => found.missing(&env.proxy_user, "a user name, since PROXY_PASSWORD is set"),
        _ => {}
    }

    let whole = if is_plain && env.http_proxy.is_set() {
        &env.http_proxy
    } else {
        &env.https_proxy
    };
    if env.proxy_host.is_set() {
        if whole.is_set() {
            found.warn(whole, "not used, PROXY_HOST names the proxy");
        }
        let scheme = scheme.unwrap_or("http");
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let url = found.read(
            &env.proxy_host,
            "a host name or address, without scheme and port",
            |host| {
                let url = values::http_url(&format!("{scheme}://{host}{port}"))?;
                // What a host is not: a port of its own, a path, a user.
                let only_host = host.starts_with('[') || !host.contains([':', '/', '@', '?', '#']);
                if only_host {
                    Ok(url)
                } else {
                    Err("more than a host".to_owned())
                }
            },
        )?;
        return Some(ProxySettings {
            url: url.as_str().trim_end_matches('/').to_owned(),
            username: user.map(str::to_owned),
            password: password.map(Secret::new),
        });
    }
    if let Some(part) = parts.iter().find(|part| part.is_set()) {
        found.missing(
            &env.proxy_host,
            &format!("the proxy's host, since {} is set", part.name),
        );
    }
    let accepted = "the proxy's URL such as http://proxy.example:3128";
    found.read(whole, accepted, |text| {
        let url = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let mut url = values::http_url(&url)?;
        let username = Some(values::percent_decoded(url.username())).filter(|name| !name.is_empty());
        let password = username
            .as_ref()
            .map(|_| Secret::new(values::percent_decoded(url.password().unwrap_or_default())));
        // Neither fails for a URL with a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok(ProxySettings {
            url: url.as_str().trim_end_matches('/').to_owned(),
            username,
            password,
        })
    })
}

pub(super) fn webhook(found: &mut Problems, env: &Environment) -> Option<Secret> {
    let text = env.webhook_url.get()?;
    if values::http_url(text).is_err() {
        found.problem(
            &env.webhook_url,
            "a value that is no such URL (it is not shown)",
            values::HTTP_URL,
        );
        return None;
    }
    Some(Secret::new(text))
}

/// As Docker's own clients read `DOCKER_HOST`, `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH`, except that the engine's
/// certificate is verified whenever there is one.
pub(super) fn engine(found: &mut Problems, env: &Environment) -> EngineHost {
    const ACCEPTED: &str = "unix:///path/of/the.sock or tcp://host:port";
    let default = EngineHost::Unix(PathBuf::from(DEFAULT_SOCKET));
    let Some(text) = env.docker_host.get() else {
        return default;
    };
    let scheme = text
        .split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    let host = match scheme.as_deref() {
        Some("unix") => found.read(&env.docker_host, ACCEPTED, |text| match text.split_once("://") {
            Some((_, path)) if path.starts_with('/') => Ok(EngineHost::Unix(PathBuf::from(path))),
            _ => Err("the path is not absolute".to_owned()),
        }),
        Some("tcp" | "http" | "https") => {
            let tls = scheme.as_deref() == Some("https")
                || env.docker_tls_verify.is_set()
                || env.docker_cert_path.is_set();
            let address = found.read(&env.docker_host, ACCEPTED, |text| tcp_address(text, tls));
            let certificates = if tls { certificates(found, env) } else { None };
            address.map(|address| EngineHost::Tcp {
                address,
                tls: certificates,
            })
        }
        Some("ssh") => {
            let parse = |_: &str| Err("ssh is not spoken here".to_owned());
            found.read(&env.docker_host, ACCEPTED, parse)
        }
        _ => found.read(&env.docker_host, ACCEPTED, |_| Err(String::new())),
    };
    host.unwrap_or(default)
}

fn tcp_address(text: &str, tls: bool) -> Result<String, String> {
    // Of a special scheme the URL's parser checks the host; the port it takes for the default is ours to add.
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let url = Url::parse(&format!("ftp://{rest}")).map_err(|error| error.to_string())?;
    let host = url.host_str().ok_or("no host")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user or password in it".to_owned());
    }
    if url.path().len() > 1 || url.query().is_some() || url.fragment().is_some() {
        return Err("a path in it".to_owned());
    }
    let default = if tls { 2376 } else { 2375 };
    // `ftp` hides its own port 21, which no engine has.
    Ok(format!("{host}:{}", url.port().unwrap_or(default)))
}

/// The directory of the client's certificate: `DOCKER_CERT_PATH`, else where Docker keeps its configuration.
fn certificates(found: &mut Problems, env: &Environment) -> Option<PathBuf> {
    if env
        .docker_tls_verify
        .get()
        .is_some_and(|text| values::boolean(text) == Ok(false))
    {
        found.warn(
            &env.docker_tls_verify,
            "any value turns TLS verification on, as in every Docker client",
        );
    }
    let directory = [&env.docker_cert_path, &env.docker_config]
        .into_iter()
        .find_map(Variable::get)
        .map(PathBuf::from)
        .or_else(|| env.home.get().map(|home| Path::new(home).join(".docker")));
    let accepted = "a directory with ca.pem, cert.pem and key.pem";
    let Some(directory) = directory else {
        found.missing(
            &env.docker_cert_path,
            &format!("{accepted}, since TLS is asked for"),
        );
        return None;
    };
    let wrong: Vec<String> = ["ca.pem", "cert.pem", "key.pem"]
        .iter()
        .filter_map(|name| open(&directory.join(name)).err())
        .collect();
    if wrong.is_empty() {
        Some(directory)
    } else {
        found.problem(&env.docker_cert_path, wrong.join(", "), accepted);
        None
    }
}

/// A secret that may be given as it is or in a file.
enum Given<'a> {
    Value(Secret, &'a Variable),
    /// It is among the problems.
    Wrong,
    Not,
}

fn secret<'a>(found: &mut Problems, plain: &'a Variable, file: &'a Variable) -> Given<'a> {
    if found.names(plain) || found.names(file) {
        return Given::Wrong;
    }
    match (plain.verbatim(), file.get()) {
        (Some(_), Some(_)) => {
            found.problem(file, format!("given beside {}", plain.name), "one of the two");
            Given::Wrong
        }
        (Some(value), None) => Given::Value(Secret::new(value), plain),
        (None, Some(path)) => match secret_file(Path::new(path)) {
            Ok(value) => Given::Value(value, file),
            Err(why) => {
                found.problem(
                    file,
                    why,
                    "the path of a file that can be read, holding the secret and no more",
                );
                Given::Wrong
            }
        },
        (None, None) => Given::Not,
    }
}

fn secret_file(path: &Path) -> Result<Secret, String> {
    const LARGEST: u64 = 64 * 1024;
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_string(&mut text));
    if let Err(error) = read {
        return Err(format!("{}: {error}", path.display()));
    }
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.trim().is_empty() {
        return Err(format!("{}: the file is empty", path.display()));
    }
    Ok(Secret::new(secret))
}

fn readable(found: &mut Problems, variable: &Variable) -> Option<PathBuf> {
    let path = PathBuf::from(variable.get()?);
    match open(&path) {
        Ok(()) => Some(path),
        Err(why) => {
            found.problem(variable, why, READABLE);
            None
        }
    }
}

fn open(path: &Path) -> Result<(), String> {
    match File::open(path).and_then(|_| fs::metadata(path)) {
        Ok(metadata) if metadata.is_dir() => Err(format!("{}: is a directory", path.display())),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

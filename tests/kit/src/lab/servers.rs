//! Real servers on the way to the Manager, and the local Manager itself. Each ends with the test.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{Lab, PATIENCE, Run, Upgrader, expect, image, project, static_binary};

pub const ACCOUNT: &str = "acct-TEST_000000000000";
pub const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";
/// A revoked token that the Manager knows.
pub const REVOKED: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

/// A server and its directory.
pub struct Server {
    child: Child,
    directory: TempDir,
    pub port: u16,
}

impl Server {
    /// Starts a command for a free port once its configuration is written, and waits until it listens there. Another process
    /// may take the port first: a command that ends is started again with another port.
    pub fn start(configure: impl Fn(&Path, u16) -> Command) -> Self {
        let mut ends = String::new();
        for _ in 0..3 {
            match Self::listening(&configure) {
                Ok(server) => return server,
                Err(end) => ends.push_str(&end),
            }
        }
        panic!("{ends}")
    }

    /// # Errors
    /// The command ended, or does not listen: the error is its output.
    fn listening(configure: impl Fn(&Path, u16) -> Command) -> Result<Self, String> {
        let directory = tempfile::tempdir().expect("a directory");
        // squid drops root before it writes its log.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777))
            .expect("a directory for all");
        let port = free_port();
        let mut command = configure(directory.path(), port);
        let output = fs::File::create(directory.path().join("output")).expect("a file");
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; LAB_PROXY=1 tests/lab/run installs it"));
        let mut server = Self {
            child,
            directory,
            port,
        };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().expect("a process");
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let written = ["output", "cache.log"].map(|name| server.read(name)).concat();
                return Err(format!("{command:?} does not listen: {ended:?}\n{written}\n"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// The path of a file in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A file that the server writes.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.expect("a port").port()
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).expect("a file");
    path
}

/// A certificate or a key of the fixtures: `ca.pem`, `server.pem` for 127.0.0.1.
pub fn fixture(name: &str) -> String {
    let path = project().join("tests/fixtures/tls").join(name);
    path.to_string_lossy().into_owned()
}

/// The local Manager, which publishes this version. Its `output` has a line for each request.
pub fn manager(published: &str) -> Server {
    Server::start(|_, port| {
        let mut command = Command::new(static_binary("manager"));
        command
            .args(["serve", "--listen", &format!("127.0.0.1:{port}")])
            .args(["--account", ACCOUNT, "--token", TOKEN, "--revoked-token", REVOKED])
            .args(["--published", &image(published)]);
        command
    })
}

/// Has the local Manager at this URL publish an image.
pub fn publish(manager: &str, reference: &str) {
    expect(Command::new(static_binary("manager")).args(["publish", "--at", manager, reference]));
}

/// Sets the local Manager's answer from now on, in the format of `/local/fault`.
pub fn set_answer(manager: &Server, fault: &Value) {
    let body = fault.to_string();
    let mut stream = TcpStream::connect(manager.address()).expect("the Manager");
    let head = "PUT /local/fault HTTP/1.0\r\nHost: manager";
    let sent = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    sent.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains(" 204 "), "{answer}");
}

/// The upgrader with a Manager at this URL.
pub fn asking(lab: &Lab, url: &str) -> Upgrader {
    lab.upgrader("0")
        .without("PUBLISHED_IMAGE")
        .with("ACCOUNT_ID", ACCOUNT)
        .with("UPGRADER_TOKEN", TOKEN)
        .with("MANAGER_HOST_AND_PORT", url)
}

/// The address on which a server listens. A cluster has its own network, and its pods also send requests.
fn host() -> &'static str {
    let is_cluster = std::env::var_os("LAB_KUBERNETES").is_some();
    if is_cluster { "0.0.0.0" } else { "127.0.0.1" }
}

/// A proxy that requires this login, and knows `manager.example`. `access.log` has each request and its user.
pub fn squid(user: &str, password: &str) -> Server {
    let hashed = expect(Command::new("openssl").args(["passwd", "-apr1", password]));
    Server::start(|directory, port| {
        let users = write(directory, "users", &format!("{user}:{hashed}\n"));
        let hosts = write(directory, "hosts", "127.0.0.1 manager.example\n");
        let (at, users, hosts) = (directory.display(), users.display(), hosts.display());
        let host = host();
        let config = format!(
            "http_port {host}:{port}\nvisible_hostname lab\npid_filename none\ncoredump_dir none\n\
             cache deny all\ncache_mem 0 MB\nhosts_file {hosts}\nnetdb_filename none\npinger_enable off\nshutdown_lifetime 0 seconds\n\
             cache_log {at}/cache.log\naccess_log stdio:{at}/access.log\n\
             auth_param basic program /usr/lib/squid/basic_ncsa_auth {users}\nauth_param basic children 1\n\
             acl known proxy_auth REQUIRED\nhttp_access allow known\nhttp_access deny all\n"
        );
        let config = write(directory, "squid.conf", &config);
        let mut command = Command::new("squid");
        command.arg("-N").arg("-f").arg(config);
        command
    })
}

/// Another proxy. It accepts only letters and digits.
pub fn tinyproxy(user: &str, password: &str) -> Server {
    Server::start(|directory, port| {
        let at = directory.display();
        let config = format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\nLogLevel Connect\n\
             LogFile \"{at}/access.log\"\nBasicAuth {user} {password}\n"
        );
        let config = write(directory, "tinyproxy.conf", &config);
        let mut command = Command::new("tinyproxy");
        command.arg("-d").arg("-c").arg(config);
        command
    })
}

/// A web server before the Manager. It reports a missing client certificate by HTTP. `certificate` is a file and its key.
pub fn nginx(manager: &str, (certificate, key): (&str, &str), client_ca: Option<&str>) -> Server {
    Server::start(|directory, port| {
        let verify = client_ca
            .map(|ca| format!("ssl_client_certificate {ca}; ssl_verify_client on;"))
            .unwrap_or_default();
        let (at, host) = (directory.display(), host());
        let bodies = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {at}/{name};"))
            .join(" ");
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log; events {{}}\n\
             http {{ access_log {at}/access.log; {bodies}\n\
             server {{ listen {host}:{port} ssl; ssl_certificate {certificate}; ssl_certificate_key {key}; {verify}\n\
             location / {{ proxy_pass http://{manager}; }} }} }}\n"
        );
        let config = write(directory, "nginx.conf", &config);
        let mut command = Command::new("nginx");
        command
            .arg("-e")
            .arg(directory.join("error.log"))
            .arg("-c")
            .arg(config);
        command
    })
}

/// TLS before the Manager, which ends the connection of a client without a certificate.
pub fn stunnel(to: &str, client_ca: Option<&str>) -> Server {
    Server::start(|directory, port| {
        let verify = client_ca
            .map(|ca| format!("CAfile = {ca}\nverify = 2\n"))
            .unwrap_or_default();
        let (certificate, key) = (fixture("server.pem"), fixture("server.key"));
        let config = format!(
            "foreground = yes\npid =\nsyslog = no\n[lab]\naccept = 127.0.0.1:{port}\nconnect = {to}\n\
             cert = {certificate}\nkey = {key}\n{verify}"
        );
        let mut command = Command::new("stunnel4");
        command.arg(write(directory, "stunnel.conf", &config));
        command
    })
}

/// A certificate for 127.0.0.1 from an unknown CA; returns the file and its key.
pub fn unknown_certificate(directory: &Path) -> (String, String) {
    own_certificate(directory, "127.0.0.1")
}

/// A self-signed certificate for this address; returns the file and its key.
pub fn own_certificate(directory: &Path, address: &str) -> (String, String) {
    let [certificate, key] =
        ["unknown.pem", "unknown.key"].map(|name| directory.join(name).to_string_lossy().into_owned());
    let mut make = Command::new("openssl");
    make.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ])
    .args([
        "-subj",
        "/CN=delegate-upgrader unknown",
        "-addext",
        &format!("subjectAltName=IP:{address}"),
    ])
    .args(["-addext", "basicConstraints=critical,CA:FALSE"])
    .args(["-days", "2", "-keyout", &key, "-out", &certificate]);
    expect(&mut make);
    (certificate, key)
}

impl Run {
    /// The Manager refuses the connection, and the output reports that many waits for it: a plan asks once and does not wait.
    pub fn assert_manager_is_away(&self, waits: usize) {
        self.says("cannot determine the published image");
        self.says("Connection refused");
        assert_eq!(
            self.text.matches("waiting for the Manager").count(),
            waits,
            "{}",
            self.text
        );
    }
}

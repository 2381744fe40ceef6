//! Objects to which options refer: networks, a volume, directories of the host, another container, images.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env as environment, fs};

use serde_json::{Value, json};

use crate::row::Images;
use kit::lab::engine::Engine;
use kit::lab::{self, LABEL};

pub(crate) const NETWORK: &str = "fid-network";
pub(crate) const OTHER_NETWORK: &str = "fid-other-network";
pub(crate) const NETWORK_6: &str = "fid-network-6";
pub(crate) const NETWORK_MAC: &str = "fid-network-macvlan";
pub(crate) const VOLUME: &str = "fid-volume";
/// A container to share namespaces and volumes with, and to link to.
pub(crate) const HELPER: &str = "fid-helper";

/// All of them, and the documents of the images.
pub(crate) struct Surroundings {
    pub(crate) engine: Engine,
    pub(crate) version: String,
    pub(crate) api: String,
    pub(crate) is_podman: bool,
    pub(crate) plain: [String; 3],
    pub(crate) rich: [String; 3],
    pub(crate) documents: [[Value; 3]; 2],
    pub(crate) network_id: String,
    pub(crate) helper_id: String,
    /// A directory to bind.
    pub(crate) directory: String,
    /// A directory whose mounts are shared, if the engine is the lab's own.
    pub(crate) shared: String,
    /// A block device of the host.
    pub(crate) disk: String,
    /// A container without any option, for either pair of images, as its document.
    pub(crate) least: [Value; 2],
}

impl Surroundings {
    pub(crate) async fn make() -> Self {
        let engine = Engine::of_the_lab();
        clear(&engine).await;
        let version = engine.expect("GET", "/version", None).await;
        let text = |key: &str| version[key].as_str().unwrap_or_default().to_owned();
        let [plain, rich] = crate::images::build();
        let mut documents = Vec::new();
        for reference in plain.iter().chain(&rich) {
            documents.push(
                engine
                    .expect("GET", &format!("/images/{reference}/json"), None)
                    .await,
            );
        }
        let rich_documents = documents.split_off(plain.len());
        let documents =
            [documents, rich_documents].map(|all| all.try_into().expect("as many as there are images"));
        let network_id = networks(&engine).await;
        volume(&engine, &rich[0]).await;
        let helper = helper(&engine, &plain[0]).await;
        let (directory, shared) = directories();
        let mut least = Vec::new();
        for (name, image) in [("fid-least-plain", &plain[0]), ("fid-least-rich", &rich[0])] {
            // It is not a delegate, so no upgrader looks at it.
            let body = json!({ "Image": image, "Labels": { LABEL: name } });
            least.push(engine.run(name, &body).await);
        }
        let [least_plain, least_rich] = least.try_into().expect("two containers");
        Self {
            version: text("Version"),
            api: text("ApiVersion"),
            is_podman: version["Components"][0]["Name"] == "Podman Engine",
            plain,
            rich,
            documents,
            network_id,
            helper_id: helper["Id"].as_str().unwrap_or_default().to_owned(),
            directory,
            shared,
            disk: disk(),
            least: [least_plain, least_rich],
            engine,
        }
    }

    /// The references of a row's images, their documents, and the container without options.
    pub(crate) fn of(&self, images: Images) -> (&[String; 3], &[Value; 3], &Value) {
        match images {
            Images::Plain => (&self.plain, &self.documents[0], &self.least[0]),
            Images::Rich => (&self.rich, &self.documents[1], &self.least[1]),
        }
    }

    pub(crate) async fn clear(&self) {
        clear(&self.engine).await;
    }
}

/// Creates the networks; returns the id of the first.
async fn networks(engine: &Engine) -> String {
    let ipam = |subnet: &str| json!({ "Config": [{ "Subnet": subnet }] });
    let labels = json!({ LABEL: "fidelity" });
    let make = async |name: &str, more: Value| {
        let mut body = json!({ "Name": name, "Labels": labels });
        for (key, value) in more.as_object().into_iter().flatten() {
            body[key] = value.clone();
        }
        let (status, answer) = engine.call("POST", "/networks/create", Some(&body)).await;
        if status >= 400 {
            // Rows that need the network are then refused and reported.
            println!("fidelity: no network {name}: {}", answer["message"]);
        }
        answer["Id"].as_str().unwrap_or_default().to_owned()
    };
    let first = make(NETWORK, json!({ "IPAM": ipam("10.231.0.0/16") })).await;
    make(OTHER_NETWORK, json!({ "IPAM": ipam("10.232.0.0/16") })).await;
    make(
        NETWORK_6,
        json!({ "EnableIPv6": true, "IPAM": ipam("fd00:f1d::/64") }),
    )
    .await;
    make(
        NETWORK_MAC,
        json!({ "Driver": "macvlan", "IPAM": ipam("10.233.0.0/16") }),
    )
    .await;
    first
}

/// Creates a volume with a directory in it, for a mount of a part.
async fn volume(engine: &Engine, image: &str) {
    let body = json!({ "Name": VOLUME, "Labels": { LABEL: "fidelity" } });
    engine.expect("POST", "/volumes/create", Some(&body)).await;
    let body = json!({
        "Image": image,
        "User": "0",
        "Entrypoint": ["/busybox", "mkdir", "-p", "/volume/sub/path"],
        "HostConfig": { "Binds": [format!("{VOLUME}:/volume")], "NetworkMode": "none" },
    });
    let made = engine.run("fid-make-directory", &body).await;
    let wait = format!("/containers/{}/wait", made["Id"].as_str().unwrap_or_default());
    engine.expect("POST", &wait, None).await;
    engine.clear("fid-make-directory").await;
}

async fn helper(engine: &Engine, image: &str) -> Value {
    let body = json!({
        "Image": image,
        "Labels": { LABEL: HELPER },
        "Volumes": { "/helper-anonymous": {} },
        "HostConfig": { "IpcMode": "shareable", "Binds": [format!("{VOLUME}:/helper-volume")] },
    });
    let document = engine.run(HELPER, &body).await;
    let connect = json!({ "Container": HELPER });
    engine
        .expect("POST", &format!("/networks/{NETWORK}/connect"), Some(&connect))
        .await;
    document
}

fn directories() -> (String, String) {
    let here = PathBuf::from(lab::env("LAB_DIR")).join("fidelity");
    let (directory, shared) = (here.join("directory"), here.join("shared"));
    for path in [&directory, &shared] {
        fs::create_dir_all(path).expect("a directory to bind");
    }
    fs::write(directory.join("file"), "").expect("a file to bind");
    share(&shared);
    let text = |path: &Path| path.display().to_string();
    (text(&directory), text(&shared))
}

/// The host's first disk; without one, a name that the engine then reports as missing.
fn disk() -> String {
    let listed = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut disks: Vec<_> = listed
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .filter(|path| path.exists())
        .collect();
    disks.sort();
    disks
        .first()
        .map_or("/dev/sda".to_owned(), |path| path.display().to_string())
}

/// Makes a shared mount that the engine sees. Only in a lab of its own: the mount ends with the lab.
fn share(directory: &Path) {
    let lab = PathBuf::from(environment::var_os("LAB_DIR").unwrap_or_default());
    if !lab.join("docker.pid").exists() {
        return;
    }
    let mount = "mount -t tmpfs tmpfs \"$1\" && mount --make-shared \"$1\"";
    let mut command = match fs::read_to_string("/run/lab/pid") {
        Ok(pid) => {
            let mut command = Command::new("nsenter");
            command.args(["--target", pid.trim(), "--mount", "--", "sh"]);
            command
        }
        Err(_) => Command::new("sh"),
    };
    lab::expect(command.args(["-c", mount, "sh"]).arg(directory));
}

async fn clear(engine: &Engine) {
    let listed = engine.expect("GET", "/containers/json?all=1", None).await;
    for row in listed.as_array().into_iter().flatten() {
        if is_ours(row["Names"][0].as_str().unwrap_or_default()) {
            let id = row["Id"].as_str().unwrap_or_default();
            engine
                .call("DELETE", &format!("/containers/{id}?force=1&v=1"), None)
                .await;
        }
    }
    let networks = engine.expect("GET", "/networks", None).await;
    for network in networks.as_array().into_iter().flatten() {
        if is_ours(network["Name"].as_str().unwrap_or_default()) {
            let id = network["Id"].as_str().unwrap_or_default();
            engine.call("DELETE", &format!("/networks/{id}"), None).await;
        }
    }
    let volumes = engine.expect("GET", "/volumes", None).await;
    for volume in volumes["Volumes"].as_array().into_iter().flatten() {
        let name = volume["Name"].as_str().unwrap_or_default();
        if is_ours(name) {
            engine.call("DELETE", &format!("/volumes/{name}"), None).await;
        }
    }
}

fn is_ours(name: &str) -> bool {
    name.trim_start_matches('/').starts_with("fid-")
}

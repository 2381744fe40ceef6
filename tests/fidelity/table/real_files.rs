//! The files and commands with which Harness lets its users start a delegate, as the create bodies that the engine gets.
//! The account, the token and the address are made up.

use serde_json::{Value, json};

use crate::row::Row;
use crate::surroundings::{NETWORK, Surroundings};
use kit::lab::docker;

const GIB: u64 = 1 << 30;

/// The variables that all of them have.
const COMMON: &str = "ACCOUNT_ID=abcdefghijklmnopqrstuv DELEGATE_TOKEN=000102030405060708090a0b0c0d0e0f \
                      MANAGER_HOST_AND_PORT=https://manager.example NEXT_GEN=true DELEGATE_TYPE=DOCKER DELEGATE_TAGS=";
/// The variables of the generated compose file.
const COMPOSE: &str = "DEPLOY_MODE=KUBERNETES DELEGATE_DESCRIPTION= DELEGATE_TASK_LIMIT=50 DELEGATE_ORG_IDENTIFIER= \
                       DELEGATE_PROJECT_IDENTIFIER= PROXY_MANAGER=true VERSION_CHECK_DISABLED=false";
/// The variables of the launch script, which also names variables without a value.
const SCRIPT: &str = "DEPLOY_MODE=KUBERNETES PROXY_HOST= PROXY_PORT= PROXY_SCHEME= PROXY_USER= PROXY_PASSWORD= NO_PROXY= \
                      PROXY_MANAGER=true INIT_SCRIPT= POLL_FOR_TASKS=false HELM3_PATH= KUBECTL_PATH=";

pub(crate) fn rows(around: &Surroundings) -> Vec<Row> {
    let (repository, _) = around.plain[0].rsplit_once(':').expect("a tag");
    let latest = format!("{repository}:latest");
    docker(&["tag", &around.plain[0], &latest]);
    let restart = json!({ "Name": "unless-stopped" });
    let mounts = ["/writable", "/tmp"].map(|target| json!({ "Type": "tmpfs", "Target": target }));
    vec![
        // The docker-compose.yml that the Manager generates: format 3.7, `deploy.resources.limits`, the variables as a list, in
        // which quotes are part of the value. Compose 2 turns it into this body.
        Row::new(
            "harness compose file",
            json!({
                "Image": latest, "AttachStdout": true, "AttachStderr": true,
                "Env": variables(COMPOSE, &["INIT_SCRIPT=echo \"a b\" 'c'"]),
                "Labels": {
                    "com.docker.compose.depends_on": "", "com.docker.compose.oneoff": "False",
                    "com.docker.compose.project": "site", "com.docker.compose.service": "harness-ng-delegate",
                },
                "HostConfig": {
                    "NanoCpus": 500_000_000, "Memory": 2 * GIB, "RestartPolicy": restart, "NetworkMode": NETWORK,
                },
                "NetworkingConfig": { "EndpointsConfig": {
                    NETWORK: { "Aliases": ["site-harness-ng-delegate-1", "harness-ng-delegate"] },
                } },
            }),
        ),
        // launch-harness-delegate.sh: `docker run -d --restart unless-stopped --hostname="$(hostname -f | head -c 63)"`.
        Row::new(
            "harness launch script",
            json!({
                "Image": latest, "Env": variables(SCRIPT, &[]), "HostConfig": { "RestartPolicy": restart },
                "Hostname": "delegates-17.of-the-build-farm.eu-central-1.compute.internal.ex",
            }),
        ),
        // The `docker run --read-only` of Harness's page on delegates with a read-only file system.
        read_only("harness read-only command", "Mounts", &json!(mounts)),
        // The same with `--tmpfs` and without capabilities, by owners who go further than that page.
        read_only(
            "harness read-only command, tmpfs, no capabilities",
            "Tmpfs",
            &json!({ "/tmp": "", "/opt/harness-delegate": "rw,exec,size=64m,mode=1777" }),
        ),
    ]
}

fn read_only(title: &'static str, key: &str, writable: &Value) -> Row {
    let mut host =
        json!({ "NanoCpus": 1_000_000_000, "Memory": 2 * GIB, "ReadonlyRootfs": true, key: writable });
    let mut directory = "WORKING_DIR=/writable";
    if key == "Tmpfs" {
        host["CapDrop"] = json!(["ALL"]);
        directory = "WORKING_DIR=/opt/harness-delegate";
    }
    let env = variables(directory, &[]);
    Row::new(title, json!({ "Env": env, "HostConfig": host }))
}

fn variables<'a>(more: &'a str, with_spaces: &[&'a str]) -> Vec<&'a str> {
    let words = COMMON.split(' ').chain(more.split(' '));
    words.chain(with_spaces.iter().copied()).collect()
}

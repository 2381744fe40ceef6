//! The configuration of a container: names, environment, command, health check, labels, logs, its end.

use serde_json::json;

use crate::row::Row;

const SECOND: u64 = 1_000_000_000;
/// Runs the delegate and ignores the following words.
const SHELL: [&str; 4] = ["/busybox", "sh", "-c", "exec /delegate"];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = names();
    rows.extend(commands());
    rows.extend(health());
    rows.extend(ends());
    rows
}

fn names() -> Vec<Row> {
    vec![
        row!("nothing at all", {}),
        row!("nothing at all, image with defaults", {}).rich(),
        row!("hostname", { "Hostname": "a-host" }),
        row!("domainname", { "Hostname": "a-host", "Domainname": "example.org" }),
        row!("user by number", { "User": "1002:1003" }),
        row!("user by number, image with defaults", { "User": "1002" }).rich(),
        row!("workdir", { "WorkingDir": "/work" }),
        row!("workdir over the image's", { "WorkingDir": "/work" }).rich(),
        row!("env", { "Env": ["A=1", "B=", "C=x=y z", "D=\u{e4}\"'$"] }),
        row!("env without a value", { "Env": ["NOVALUE"] }),
        row!("env over the image's", { "Env": ["IMAGE_VARIABLE=owner"] }).rich(),
        row!("env that takes the image's away", { "Env": ["IMAGE_VARIABLE"] }).rich(),
        row!("env that is just the image's", { "Env": ["IMAGE_VARIABLE=1"] })
            .rich()
            .limit("inspect shows a value that owner and image both gave, and not that the owner did"),
        row!("env given twice", { "Env": ["TWICE=1", "TWICE=2"] }),
        row!("labels", { "Labels": { "a": "1", "empty": "", "x/y.z": "{\"k\":1}" } }),
        row!("labels of compose", { "Labels": {
            "com.docker.compose.config-hash": "0123456789abcdef", "com.docker.compose.container-number": "1",
            "com.docker.compose.image": "sha256:0123", "com.docker.compose.oneoff": "False",
            "com.docker.compose.project": "fidelity", "com.docker.compose.service": "delegate",
        } }),
        row!("label over the image's", { "Labels": { "image.label": "owner" } }).rich(),
        row!("tty and stdin", { "Tty": true, "OpenStdin": true, "StdinOnce": true }),
        row!("attached streams", { "AttachStdin": true, "AttachStdout": true, "AttachStderr": true }),
        row!("network disabled", { "NetworkDisabled": true }),
        host!("console size", { "ConsoleSize": [40, 120] }),
        host!("container id file", { "ContainerIDFile": "/tmp/a-file" }),
        host!("annotations", { "Annotations": { "org.example.note": "a" } }),
        host!("volume driver", { "VolumeDriver": "local" }),
        host!("isolation", { "Isolation": "default" }),
    ]
}

fn commands() -> Vec<Row> {
    vec![
        row!("entrypoint and cmd", { "Entrypoint": SHELL, "Cmd": ["owner", "of it"] }).rich(),
        row!("entrypoint, cmd null", { "Entrypoint": SHELL, "Cmd": null }).rich(),
        row!("entrypoint, cmd []", { "Entrypoint": SHELL, "Cmd": [] }).rich(),
        row!("the image's entrypoint repeated", { "Entrypoint": crate::images::ENTRYPOINT }).rich(),
        row!("entrypoint null, cmd", { "Entrypoint": null, "Cmd": ["owner"] }).rich(),
        row!("entrypoint [], cmd", { "Entrypoint": [], "Cmd": ["/delegate"] }).rich(),
        row!("entrypoint [\"\"], cmd", { "Entrypoint": [""], "Cmd": ["/delegate"] }).rich(),
        row!("entrypoint as a string", { "Entrypoint": "/delegate" }).rich(),
        row!("entrypoint, plain image", { "Entrypoint": ["/delegate"] }),
        row!("shell", { "Shell": ["/busybox", "ash", "-c"] }).rich(),
    ]
}

fn health() -> Vec<Row> {
    let test = ["CMD", "/delegate", "healthcheck"];
    vec![
        row!("health check", { "Healthcheck": {
            "Test": test, "Interval": 20 * SECOND, "Timeout": 9 * SECOND, "Retries": 4, "StartPeriod": 3 * SECOND,
        } }),
        row!("health check start interval", { "Healthcheck": {
            "Test": test, "Interval": 20 * SECOND, "StartPeriod": 9 * SECOND, "StartInterval": 2 * SECOND,
        } }),
        row!("health check none", { "Healthcheck": { "Test": ["NONE"] } }).rich(),
        row!("health check retries only", { "Healthcheck": { "Retries": 9 } }).rich(),
        row!("health check interval only", { "Healthcheck": { "Interval": 21 * SECOND } }).rich(),
        row!("health check by shell", { "Healthcheck": { "Test": ["CMD-SHELL", "/delegate healthcheck"], "Timeout": 8 * SECOND } })
        .rich(),
    ]
}

fn ends() -> Vec<Row> {
    vec![
        row!("stop signal", { "StopSignal": "SIGINT" }),
        row!("stop signal over the image's", { "StopSignal": "15" }).rich(),
        row!("stop timeout", { "StopTimeout": 17 }),
        row!("stop timeout 0", { "StopTimeout": 0 }),
        host!("restart always", { "RestartPolicy": { "Name": "always" } }),
        host!("restart unless-stopped", { "RestartPolicy": { "Name": "unless-stopped" } }),
        host!("restart on-failure:3", { "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 3 } }),
        host!("auto-remove", { "AutoRemove": true }),
        host!("init", { "Init": true }),
        host!("init false", { "Init": false }),
        host!("log driver json-file with options", { "LogConfig": { "Type": "json-file", "Config": { "max-size": "1m", "tag": "t-{{.Name}}" } } }),
        host!("log driver local", { "LogConfig": { "Type": "local", "Config": { "max-file": "3", "mode": "non-blocking" } } }),
        host!("log driver none", { "LogConfig": { "Type": "none" } }),
        Row::host(
            "log driver syslog",
            json!({ "LogConfig": { "Type": "syslog", "Config": { "syslog-address": "udp://127.0.0.1:5514" } } }),
        ),
    ]
}

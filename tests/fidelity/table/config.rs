//! What a container is and runs: names, environment, command, health check, labels, logs, its end.

use serde_json::json;

use crate::row::Row;

const SECOND: u64 = 1_000_000_000;
/// Runs the delegate and ignores what follows.
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
        Row::new("nothing at all", json!({})),
        Row::new("nothing at all, image with defaults", json!({})).rich(),
        Row::new("hostname", json!({ "Hostname": "a-host" })),
        Row::new(
            "domainname",
            json!({ "Hostname": "a-host", "Domainname": "example.org" }),
        ),
        Row::new("user by number", json!({ "User": "1002:1003" })),
        Row::new("user by number, image with defaults", json!({ "User": "1002" })).rich(),
        Row::new("workdir", json!({ "WorkingDir": "/work" })),
        Row::new("workdir over the image's", json!({ "WorkingDir": "/work" })).rich(),
        Row::new("env", json!({ "Env": ["A=1", "B=", "C=x=y z", "D=\u{e4}\"'$"] })),
        Row::new("env without a value", json!({ "Env": ["NOVALUE"] })),
        Row::new("env over the image's", json!({ "Env": ["IMAGE_VARIABLE=owner"] })).rich(),
        Row::new(
            "env that takes the image's away",
            json!({ "Env": ["IMAGE_VARIABLE"] }),
        )
        .rich(),
        Row::new(
            "env that is just the image's",
            json!({ "Env": ["IMAGE_VARIABLE=1"] }),
        )
        .rich()
        .limit("inspect shows a value that owner and image both gave, and not that the owner did"),
        Row::new("env given twice", json!({ "Env": ["TWICE=1", "TWICE=2"] })),
        Row::new(
            "labels",
            json!({ "Labels": { "a": "1", "empty": "", "x/y.z": "{\"k\":1}" } }),
        ),
        Row::new(
            "labels of compose",
            json!({ "Labels": {
                "com.docker.compose.config-hash": "0123456789abcdef", "com.docker.compose.container-number": "1",
                "com.docker.compose.image": "sha256:0123", "com.docker.compose.oneoff": "False",
                "com.docker.compose.project": "fidelity", "com.docker.compose.service": "delegate",
            } }),
        ),
        Row::new(
            "label over the image's",
            json!({ "Labels": { "image.label": "owner" } }),
        )
        .rich(),
        Row::new(
            "tty and stdin",
            json!({ "Tty": true, "OpenStdin": true, "StdinOnce": true }),
        ),
        Row::new(
            "attached streams",
            json!({ "AttachStdin": true, "AttachStdout": true, "AttachStderr": true }),
        ),
        Row::new("network disabled", json!({ "NetworkDisabled": true })),
        Row::host("console size", json!({ "ConsoleSize": [40, 120] })),
        Row::host("container id file", json!({ "ContainerIDFile": "/tmp/a-file" })),
        Row::host(
            "annotations",
            json!({ "Annotations": { "org.example.note": "a" } }),
        ),
        Row::host("volume driver", json!({ "VolumeDriver": "local" })),
        Row::host("isolation", json!({ "Isolation": "default" })),
    ]
}

fn commands() -> Vec<Row> {
    vec![
        Row::new(
            "entrypoint and cmd",
            json!({ "Entrypoint": SHELL, "Cmd": ["owner", "of it"] }),
        )
        .rich(),
        Row::new(
            "entrypoint, cmd null",
            json!({ "Entrypoint": SHELL, "Cmd": null }),
        )
        .rich(),
        Row::new("entrypoint, cmd []", json!({ "Entrypoint": SHELL, "Cmd": [] })).rich(),
        Row::new(
            "the image's entrypoint repeated",
            json!({ "Entrypoint": crate::images::ENTRYPOINT }),
        )
        .rich(),
        Row::new(
            "entrypoint null, cmd",
            json!({ "Entrypoint": null, "Cmd": ["owner"] }),
        )
        .rich(),
        Row::new(
            "entrypoint [], cmd",
            json!({ "Entrypoint": [], "Cmd": ["/delegate"] }),
        )
        .rich(),
        Row::new(
            "entrypoint [\"\"], cmd",
            json!({ "Entrypoint": [""], "Cmd": ["/delegate"] }),
        )
        .rich(),
        Row::new("entrypoint as a string", json!({ "Entrypoint": "/delegate" })).rich(),
        Row::new("entrypoint, plain image", json!({ "Entrypoint": ["/delegate"] })),
        Row::new("shell", json!({ "Shell": ["/busybox", "ash", "-c"] })).rich(),
    ]
}

fn health() -> Vec<Row> {
    let test = ["CMD", "/delegate", "healthcheck"];
    vec![
        Row::new(
            "health check",
            json!({ "Healthcheck": {
                "Test": test, "Interval": 20 * SECOND, "Timeout": 9 * SECOND, "Retries": 4, "StartPeriod": 3 * SECOND,
            } }),
        ),
        Row::new(
            "health check start interval",
            json!({ "Healthcheck": {
                "Test": test, "Interval": 20 * SECOND, "StartPeriod": 9 * SECOND, "StartInterval": 2 * SECOND,
            } }),
        ),
        Row::new("health check none", json!({ "Healthcheck": { "Test": ["NONE"] } })).rich(),
        Row::new("health check retries only", json!({ "Healthcheck": { "Retries": 9 } })).rich(),
        Row::new("health check interval only", json!({ "Healthcheck": { "Interval": 21 * SECOND } })).rich(),
        Row::new(
            "health check by shell",
            json!({ "Healthcheck": { "Test": ["CMD-SHELL", "/delegate healthcheck"], "Timeout": 8 * SECOND } }),
        )
        .rich(),
    ]
}

fn ends() -> Vec<Row> {
    vec![
        Row::new("stop signal", json!({ "StopSignal": "SIGINT" })),
        Row::new("stop signal over the image's", json!({ "StopSignal": "15" })).rich(),
        Row::new("stop timeout", json!({ "StopTimeout": 17 })),
        Row::new("stop timeout 0", json!({ "StopTimeout": 0 })),
        Row::host("restart always", json!({ "RestartPolicy": { "Name": "always" } })),
        Row::host(
            "restart unless-stopped",
            json!({ "RestartPolicy": { "Name": "unless-stopped" } }),
        ),
        Row::host(
            "restart on-failure:3",
            json!({ "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 3 } }),
        ),
        Row::host("auto-remove", json!({ "AutoRemove": true })),
        Row::host("init", json!({ "Init": true })),
        Row::host("init false", json!({ "Init": false })),
        Row::host(
            "log driver json-file with options",
            json!({ "LogConfig": { "Type": "json-file", "Config": { "max-size": "1m", "tag": "t-{{.Name}}" } } }),
        ),
        Row::host(
            "log driver local",
            json!({ "LogConfig": { "Type": "local", "Config": { "max-file": "3", "mode": "non-blocking" } } }),
        ),
        Row::host("log driver none", json!({ "LogConfig": { "Type": "none" } })),
        Row::host(
            "log driver syslog",
            json!({ "LogConfig": { "Type": "syslog", "Config": { "syslog-address": "udp://127.0.0.1:5514" } } }),
        ),
    ]
}

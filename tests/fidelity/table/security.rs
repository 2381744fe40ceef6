//! What a container may do and see: capabilities, namespaces, devices.

use serde_json::json;

use crate::row::Row;
use crate::surroundings::{HELPER, Surroundings};

pub(crate) fn rows(around: &Surroundings) -> Vec<Row> {
    let mut rows = rights();
    rows.extend(devices());
    rows.extend(namespaces(around));
    rows
}

fn rights() -> Vec<Row> {
    vec![
        Row::host("privileged", json!({ "Privileged": true })),
        Row::host("cap add", json!({ "CapAdd": ["NET_ADMIN", "SYS_PTRACE"] })),
        Row::host("cap add with prefix", json!({ "CapAdd": ["CAP_SYS_TIME"] })),
        Row::host("cap add all", json!({ "CapAdd": ["ALL"] })),
        Row::host("cap drop", json!({ "CapDrop": ["MKNOD", "AUDIT_WRITE"] })),
        Row::host("cap drop all", json!({ "CapDrop": ["ALL"] })),
        Row::host(
            "no new privileges",
            json!({ "SecurityOpt": ["no-new-privileges:true"] }),
        ),
        Row::host(
            "seccomp unconfined",
            json!({ "SecurityOpt": ["seccomp=unconfined"] }),
        ),
        Row::host(
            "seccomp profile",
            json!({ "SecurityOpt": ["seccomp={\"defaultAction\":\"SCMP_ACT_ALLOW\"}"] }),
        ),
        Row::host(
            "apparmor unconfined",
            json!({ "SecurityOpt": ["apparmor=unconfined"] }),
        ),
        Row::host("label disable", json!({ "SecurityOpt": ["label=disable"] })),
        Row::host(
            "system paths unconfined",
            json!({ "MaskedPaths": [], "ReadonlyPaths": [] }),
        ),
        Row::host(
            "masked paths",
            json!({ "MaskedPaths": ["/proc/kcore", "/proc/keys"] }),
        ),
        Row::host("readonly paths", json!({ "ReadonlyPaths": ["/proc/bus"] })),
        Row::host("read only root", json!({ "ReadonlyRootfs": true })),
        Row::host("group add", json!({ "GroupAdd": ["1234", "999"] })),
        Row::host(
            "sysctls",
            json!({ "Sysctls": { "net.ipv4.ip_unprivileged_port_start": "100" } }),
        ),
        Row::host(
            "sysctl of ipc",
            json!({ "Sysctls": { "kernel.msgmax": "16384" } }),
        ),
    ]
}

fn devices() -> Vec<Row> {
    let device = |host: &str, inside: &str, rights: &str| json!({ "PathOnHost": host, "PathInContainer": inside, "CgroupPermissions": rights });
    vec![
        Row::host(
            "device",
            json!({ "Devices": [device("/dev/null", "/dev/other", "rwm")] }),
        ),
        Row::host(
            "device with less rights",
            json!({ "Devices": [device("/dev/zero", "/dev/z", "r")] }),
        ),
        Row::host(
            "device cgroup rules",
            json!({ "DeviceCgroupRules": ["c 42:* rmw", "b 7:1 r"] }),
        ),
        Row::host(
            "device requests (gpus)",
            json!({ "DeviceRequests": [{ "Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]] }] }),
        ),
        Row::host(
            "device request (cdi)",
            json!({ "DeviceRequests": [{ "Driver": "cdi", "DeviceIDs": ["example.com/device=a"] }] }),
        ),
    ]
}

fn namespaces(around: &Surroundings) -> Vec<Row> {
    let helper = format!("container:{HELPER}");
    let helper_id = format!("container:{}", around.helper_id);
    vec![
        Row::host("pid host", json!({ "PidMode": "host" })),
        Row::host("pid of a container", json!({ "PidMode": helper })),
        Row::host("ipc host", json!({ "IpcMode": "host" })),
        Row::host("ipc private", json!({ "IpcMode": "private" })),
        Row::host("ipc shareable", json!({ "IpcMode": "shareable" })),
        Row::host("ipc none", json!({ "IpcMode": "none" })),
        Row::host("ipc of a container", json!({ "IpcMode": helper })),
        Row::host("uts host", json!({ "UTSMode": "host" })),
        Row::host("userns host", json!({ "UsernsMode": "host" })),
        Row::host("cgroupns host", json!({ "CgroupnsMode": "host" })),
        Row::host("cgroupns private", json!({ "CgroupnsMode": "private" })),
        Row::host("cgroup of a container", json!({ "Cgroup": helper })),
        Row::host("runtime", json!({ "Runtime": "io.containerd.runc.v2" })),
        Row::host("runtime runc", json!({ "Runtime": "runc" })),
        Row::host("network host", json!({ "NetworkMode": "host" })),
        Row::host("network none", json!({ "NetworkMode": "none" })),
        Row::new(
            "network of a container",
            json!({ "Env": ["PORT=3461"], "HostConfig": { "NetworkMode": helper } }),
        ),
        Row::new(
            "network of a container by id",
            json!({ "Env": ["PORT=3462"], "HostConfig": { "NetworkMode": helper_id } }),
        ),
        Row::new(
            "network of a container, image with ports",
            json!({ "Env": ["PORT=3464"], "HostConfig": { "NetworkMode": helper } }),
        )
        .rich(),
        Row::new(
            "network and ipc of a container",
            json!({ "Env": ["PORT=3465"], "HostConfig": { "NetworkMode": helper, "IpcMode": helper } }),
        ),
        Row::new(
            "uts and network of the host",
            json!({ "Env": ["PORT=3466"], "HostConfig": { "UTSMode": "host", "NetworkMode": "host" } }),
        ),
        Row::new(
            "privileged, pid and network of the host",
            json!({
                "Env": ["PORT=3463"],
                "HostConfig": { "Privileged": true, "PidMode": "host", "NetworkMode": "host" },
            }),
        ),
    ]
}

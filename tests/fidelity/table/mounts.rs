//! Mounts of every kind.

use serde_json::{Value, json};

use crate::row::Row;
use crate::surroundings::{HELPER, Surroundings, VOLUME};

pub(crate) fn rows(around: &Surroundings) -> Vec<Row> {
    let mut rows = binds(around);
    rows.extend(volumes(around));
    rows.extend(mounts(around));
    rows
}

fn binds(around: &Surroundings) -> Vec<Row> {
    let directory = &around.directory;
    let shared = &around.shared;
    let bind = |options: &str| json!({ "Binds": [format!("{directory}:/bind{options}")] });
    vec![
        Row::host("bind", bind("")),
        Row::host("bind read only", bind(":ro")),
        Row::host("bind rprivate", bind(":rprivate")),
        Row::host("bind relabelled", bind(":z")),
        host!("bind rslave", { "Binds": [format!("{shared}:/bind:rslave")] }),
        host!("bind rshared", { "Binds": [format!("{shared}:/bind:ro,rshared")] }),
        host!("binds of a file and of a new directory", { "Binds": [
        format!("{directory}/file:/file:ro"), format!("{directory}/made-by-the-engine:/made"),
    ] }),
        host!("bind of the engine's socket", { "Binds": ["/var/run/docker.sock:/var/run/docker.sock"] }),
    ]
}

fn volumes(around: &Surroundings) -> Vec<Row> {
    vec![
        host!("named volume", { "Binds": [format!("{VOLUME}:/volume")] }),
        host!("named volume read only, nocopy", { "Binds": [format!("{VOLUME}:/volume:ro,nocopy")] }),
        host!("named volume made by its use", { "Binds": ["fid-volume-made:/volume"] }),
        host!("anonymous volume by bind", { "Binds": ["/anonymous"] }),
        row!("anonymous volume", { "Volumes": { "/anonymous": {} } }),
        row!("anonymous volume at the image's", { "Volumes": { "/image-volume": {} } }).rich(),
        host!("named volume at the image's", { "Binds": [format!("{VOLUME}:/image-volume")] }).rich(),
        host!("tmpfs at the image's volume", { "Tmpfs": { "/image-volume": "size=1m" } }).rich(),
        host!("volumes from", { "VolumesFrom": [HELPER] }),
        host!("volumes from, by id", { "VolumesFrom": [around.helper_id] }),
        host!("volumes from, read only", { "VolumesFrom": [format!("{HELPER}:ro")] }),
        host!("volumes from, image with a volume", { "VolumesFrom": [HELPER] }).rich(),
        host!("tmpfs", { "Tmpfs": { "/scratch": "" } }),
        host!("tmpfs with options", { "Tmpfs": { "/scratch": "rw,noexec,size=65536k,mode=1770" } }),
    ]
}

fn mounts(around: &Surroundings) -> Vec<Row> {
    let (directory, shared) = (&around.directory, &around.shared);
    let mount = |title, mount: Value| host!(title, { "Mounts": [mount] });
    let volume = |options: Value| json!({ "Type": "volume", "Source": VOLUME, "Target": "/mounted", "VolumeOptions": options });
    let tmpfs = |options: Value| json!({ "Type": "tmpfs", "Target": "/mounted", "TmpfsOptions": options });
    let bind = |read_only: bool, options: Value| {
        json!({
            "Type": "bind", "Source": directory, "Target": "/mounted", "ReadOnly": read_only, "BindOptions": options,
        })
    };
    vec![
        mount("mount bind", bind(false, json!({}))),
        mount("mount bind read only", bind(true, json!({}))),
        mount(
            "mount bind private",
            bind(false, json!({ "Propagation": "private" })),
        ),
        mount(
            "mount bind not recursive",
            bind(false, json!({ "NonRecursive": true })),
        ),
        mount(
            "mount bind read only, not recursively so",
            bind(true, json!({ "ReadOnlyNonRecursive": true })),
        ),
        mount(
            "mount bind read only, recursively so",
            bind(
                true,
                json!({ "ReadOnlyForceRecursive": true, "Propagation": "rprivate" }),
            ),
        ),
        host!("mount bind makes its source", { "Mounts": [{
            "Type": "bind", "Source": format!("{directory}/made-by-a-mount"), "Target": "/mounted",
            "BindOptions": { "CreateMountpoint": true },
        }] }),
        host!("mount bind rshared", { "Mounts": [{
            "Type": "bind", "Source": shared, "Target": "/mounted", "BindOptions": { "Propagation": "rshared" },
        }] }),
        host!("mount bind consistency", { "Mounts": [{
            "Type": "bind", "Source": directory, "Target": "/mounted", "Consistency": "cached",
        }] }),
        mount("mount volume", volume(json!({}))),
        mount("mount volume no copy", volume(json!({ "NoCopy": true }))),
        mount("mount volume subpath", volume(json!({ "Subpath": "sub/path" }))),
        host!("mount volume with labels and driver", { "Mounts": [{
            "Type": "volume", "Source": "fid-volume-labelled", "Target": "/mounted", "ReadOnly": true,
            "VolumeOptions": { "Labels": { "a": "b" }, "DriverConfig": { "Name": "local" } },
        }] }),
        host!("mount volume of a driver with options", { "Mounts": [{
            "Type": "volume", "Source": "fid-volume-tmpfs", "Target": "/mounted",
            "VolumeOptions": { "DriverConfig": { "Name": "local", "Options": {
                "type": "tmpfs", "device": "tmpfs", "o": "size=1m",
            } } },
        }] }),
        host!("mount anonymous volume", { "Mounts": [{ "Type": "volume", "Target": "/mounted" }] }),
        host!("mount anonymous volume with labels", { "Mounts": [{
            "Type": "volume", "Target": "/mounted", "VolumeOptions": { "Labels": { "a": "b" } },
        }] }),
        mount("mount tmpfs", tmpfs(json!({}))),
        mount(
            "mount tmpfs size and mode",
            tmpfs(json!({ "SizeBytes": 1_048_576, "Mode": 1000 })),
        ),
        mount("mount tmpfs options", tmpfs(json!({ "Options": [["noexec"]] }))),
        host!("mount image", { "Mounts": [{ "Type": "image", "Source": around.plain[0], "Target": "/mounted" }] }),
        host!("mount cluster volume", { "Mounts": [{ "Type": "cluster", "Source": "none", "Target": "/mounted" }] }),
        host!("mount of a pipe", { "Mounts": [{ "Type": "npipe", "Source": "a", "Target": "/mounted" }] }),
        host!("binds, mounts and tmpfs together", {
            "Binds": [format!("{VOLUME}:/a:ro"), format!("{directory}:/b"), "/c"],
            "Mounts": [{ "Type": "volume", "Target": "/d" }, { "Type": "tmpfs", "Target": "/e" }],
            "Tmpfs": { "/f": "" },
        })
        .rich(),
    ]
}

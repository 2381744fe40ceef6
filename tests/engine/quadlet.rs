//! The Quadlet of `examples/quadlet` under a real systemd and a real Podman: it is installed unchanged, upgrades a
//! delegate, takes new settings, is killed when it hangs, follows Podman's socket, and stops.

use crate::systemd::played;
use kit::lab::servers::{ACCOUNT, TOKEN};
use kit::lab::{V1, V2};

/// The surroundings: a registry, images of both versions, a Manager, and Podman's socket.
const SURROUNDINGS: &str = r#"
set -u
export PODMAN_IGNORE_CGROUPSV1_WARNING=1
systemctl set-environment PODMAN_IGNORE_CGROUPSV1_WARNING=1
touch /etc/containers/nodocker
printf '[[registry]]\nlocation = "127.0.0.1:5000"\ninsecure = true\n' >/etc/containers/registries.conf.d/lab.conf
printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: /var/lib/containers/registry}}\n' >/registry.yml
printf 'http: {addr: "127.0.0.1:5000"}\n' >>/registry.yml
systemd-run --quiet docker-registry serve /registry.yml
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
# `until_is SECONDS COMMAND…`
until_is() {
    local end=$((SECONDS + $1)); shift
    until "$@"; do if [ $SECONDS -ge $end ]; then echo "never: $*"; return 1; fi; sleep 0.1; done
}
until_is 20 listens 5000
export LAB_REGISTRY=127.0.0.1:5000
/project/tests/lab/images /static/delegate "$V1 DRAIN_SECONDS=8" "$V2" >/dev/null
v1=$LAB_REGISTRY/harness/delegate:$V1 v2=$LAB_REGISTRY/harness/delegate:$V2
DELEGATE_UPGRADER_STATIC=/static /project/tests/lab/upgrader-image delegate-upgrader:latest >/dev/null
systemd-run --quiet /static/manager serve --listen 0.0.0.0:8080 --account "$ACCOUNT" --token "$TOKEN" --published "$v2"
until_is 20 listens 8080
systemctl start podman.socket
"#;

/// An operator's commands, with shorter times in the unit.
const STORY: &str = r#"
unit=delegate-upgrader settings=/etc/delegate-upgrader/delegate-upgrader.env
shown() { systemctl show --property "$1" --value $unit; }
pid() { podman inspect --format '{{.State.Pid}}' "$1"; }
journal() { journalctl --no-pager --output cat --unit $unit _COMM=conmon; }
logged() { journal | grep -F "$1" >/dev/null; }
is_active() { [ "$(shown ActiveState)" = active ]; }

# Delegates: one that it upgrades, one of another Quadlet, one of a unit by hand, and one with a secret.
printf 'DELEGATE_NAME=docker-delegate\n' >/etc/harness-delegate.env
ENV_FILE=/etc/harness-delegate.env IMAGE=$v1 /project/examples/quadlet/delegate >/dev/null
mkdir -p /etc/containers/systemd /run/systemd/system
printf '[Container]\nImage=%s\nContainerName=of-quadlet\nEnvironmentFile=/etc/harness-delegate.env\n' "$v1" \
    >/etc/containers/systemd/of-quadlet.container
cat >/run/systemd/system/of-unit.service <<UNIT
[Service]
Environment=PODMAN_SYSTEMD_UNIT=%n
ExecStart=podman run --rm --replace --name of-unit --env-file /etc/harness-delegate.env $v1
Restart=always
UNIT
printf 'hunter2-hunter2' | podman secret create delegate-token - >/dev/null
podman run --detach --name with-secret --secret delegate-token,type=env,target=DELEGATE_TOKEN \
    --env-file /etc/harness-delegate.env "$v1" >/dev/null

# As docs/usage/podman.md has it.
cd /project
printf %s "$TOKEN" >/token
podman secret create upgrader-token /token >/dev/null
install -D -m 640 examples/systemd/delegate-upgrader.env $settings
install -D -m 644 examples/quadlet/delegate-upgrader.container /etc/containers/systemd/delegate-upgrader.container
printf '%s\n' ACCOUNT_ID="$ACCOUNT" MANAGER_HOST_AND_PORT=http://host.containers.internal:8080 SCHEDULE=@yearly \
    UPGRADE_HEALTHY_TIME=2s >>$settings
mkdir /etc/containers/systemd/delegate-upgrader.container.d
printf '[Container]\nHealthInterval=1s\nHealthTimeout=5s\nHealthStartPeriod=1s\n[Service]\nRestartSec=1s\n' \
    >/etc/containers/systemd/delegate-upgrader.container.d/test.conf
systemctl daemon-reload
systemctl start of-quadlet of-unit $unit && echo "started: $(shown ActiveState)"
# The units start side by side.
sees_all() { [[ $(shown StatusText) == 'All 4 '* ]]; }
until_is 30 sees_all
echo "status: $(shown StatusText)"

process=/proc/$(pid $unit)
sed -nE 's/^(Uid|Gid|Groups|CapPrm|CapBnd|NoNewPrivs):/\1/p' "$process/status" | tr '\t' ' '
limits='{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.Memory}} {{.HostConfig.PidsLimit}}'
echo "limits: $(podman inspect --format "$limits" $unit)"
echo "plan: $(podman exec $unit /delegate-upgrader plan | grep -c ' replace ')"
awk '$2 !~ "^/(proc|sys|dev)(/|$)" && $4 ~ "^rw" { print "may write to: " $2 }' "$process/mounts" | sort
# Neither does anything show the token, nor does podman auto-update replace anything.
/usr/libexec/podman/quadlet -dryrun >/generated 2>&1
{ cat /generated "$process/environ"; podman inspect $unit; systemctl cat $unit; } >/shown
grep -c "$TOKEN" /shown
grep -cE '^AutoUpdate|autoupdate' /shown
podman auto-update --dry-run --format 'auto-update: {{.Unit}}'

echo 'SCHEDULE="*/5 * * * * *"' >>$settings
systemctl restart $unit
# The old one is in the middle of its tasks when the upgrader, and then Podman's service, is restarted.
until_is 60 logged 'asking harness-delegate.draining'
sleep 1
systemctl restart $unit
until_is 30 is_active
systemctl restart podman.service
until_is 60 logged 'replaced; the old container is gone'
podman ps --all --format '{{.Names}} {{.Image}}' | sed "s|$LAB_REGISTRY/||" | sort
echo "cpus: $(podman inspect --format '{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}}' harness-delegate)"
echo "drained in full: $(journalctl --no-pager --output cat -t harness-delegate | grep -c 'drained in full')"

echo HEALTH_INTERVAL=2s >>$settings; systemctl reload $unit; until_is 10 logged 'the new settings are in force'
echo HEALTH_INTERVAL=soon >>$settings; systemctl reload $unit; until_is 10 logged 'reload failed: invalid settings'
echo HEALTH_INTERVAL=2s >>$settings
echo "reloaded: $(shown ActiveState)"

hangs=$(pid $unit)
kill -STOP "$hangs"
restarts() { [ "$(shown NRestarts)" -ge 1 ] && is_active; }
until_is 90 restarts && [ "$(pid $unit)" != "$hangs" ] && echo 'a hanging one is started again'

before=$(pid $unit)
systemctl restart podman.socket
until_is 30 is_active
[ "$(pid $unit)" != "$before" ] && echo 'restarted with the socket'

echo SCHEDULE=never >>$settings
systemctl restart $unit 2>/dev/null
sleep 2
echo "wrong settings: $(shown ActiveState) $(shown ExecMainStatus) $(shown NRestarts)"
sed -i '$d' $settings
systemctl reset-failed $unit
systemctl start $unit
systemctl stop $unit
echo "stopped: $(shown Result) $(shown ActiveState)"
echo '--- journal'
journal
"#;

#[test]
#[ignore = "needs a Debian with Podman: make surroundings"]
fn the_quadlet_upgrades_reloads_restarts_when_hung_and_stops() {
    let root =
        std::env::var_os("LAB_QUADLET_ROOT").expect("LAB_QUADLET=1 tests/lab/run sets LAB_QUADLET_ROOT");
    let story = format!("V1={V1} V2={V2} ACCOUNT={ACCOUNT} TOKEN={TOKEN}\n{SURROUNDINGS}{STORY}");
    let output = played(&story, &[("LAB_PODMAN", "1".into()), ("LAB_ROOT", root)]);
    let (operator, journal) = output.split_once("--- journal\n").expect("a journal");
    let said: Vec<&str> = operator.lines().collect();
    let [first, status, rest @ ..] = said.as_slice() else {
        panic!("{output}");
    };
    assert_eq!(*first, "started: active", "{output}");
    assert!(
        status.starts_with("status: All 4 delegates are healthy"),
        "{output}"
    );
    let (old, new) = (format!("harness/delegate:{V1}"), format!("harness/delegate:{V2}"));
    assert_eq!(
        rest,
        [
            // Not root, but in root's group, which may use the socket; and without capabilities.
            "Uid 65532 65532 65532 65532",
            "Gid 0 0 0 0",
            "Groups 0 ",
            "CapPrm 0000000000000000",
            "CapBnd 0000000000000000",
            "NoNewPrivs 1",
            "limits: true 104857600 64",
            "plan: 1",
            "may write to: /var/log/delegate-upgrader",
            "may write to: /var/run/docker.sock",
            "0",
            "0",
            "delegate-upgrader localhost/delegate-upgrader:latest",
            &format!("harness-delegate {new}"),
            &format!("of-quadlet {old}"),
            &format!("of-unit {old}"),
            &format!("with-secret {old}"),
            "cpus: 1000000000 2147483648",
            "drained in full: 1",
            "reloaded: active",
            "a hanging one is started again",
            "restarted with the socket",
            "wrong settings: failed 78 0",
            "stopped: success inactive",
        ],
        "{output}"
    );
    for container in ["of-quadlet", "of-unit"] {
        let line = "it is managed by systemd (label PODMAN_SYSTEMD_UNIT), which has to upgrade it";
        let line = format!("{line} container=\"{container}\"");
        assert!(journal.contains(&line), "{line:?} is not in:\n{journal}");
    }
    for line in [
        "the Podman secret delegate-token is one of its variables",
        "the new settings are in force",
        "reload failed: invalid settings",
        "shutting down; unfinished replacements resume at the next start",
    ] {
        assert!(journal.contains(line), "{line:?} is not in:\n{journal}");
    }
    assert!(!journal.contains("the engine refused"), "{journal}");
    assert!(!output.contains("hunter2") && !output.contains(TOKEN), "{output}");
}

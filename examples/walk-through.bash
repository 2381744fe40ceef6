#!/usr/bin/env bash
# What the walk-throughs share; read by `source`.
# shellcheck disable=SC2034  # They use the variables.

title=${0##*/}
fail() { printf '%s: %s\n' "$title" "$1" >&2; exit 1; }
step() { printf '\n=== %s\n' "$1"; }

if [ -z "${LAB_REGISTRY:-}" ] || [ -z "${LAB_DIR:-}" ]; then
    fail "it needs an engine and a registry: make demo DEMO=$title, or tests/lab/run examples/$title"
fi
static=${DELEGATE_UPGRADER_STATIC:-${CARGO_TARGET_DIR:-target}/static}
state=$(mktemp -d "$LAB_DIR/$title.XXXXXX")
socket=${DOCKER_HOST:-unix:///var/run/docker.sock}
socket=${socket#unix://}
followers=()

# Ends the script where the engine has something of that name: `is_free container|network|volume|image NAME…`.
is_free() {
    local kind=$1 name
    shift
    for name; do
        ! docker "$kind" inspect "$name" >/dev/null 2>&1 || fail "this engine has a $kind named $name already"
    done
}

# The upgrader looks after every delegate of this name.
no_delegate_is_named() {
    local there
    mapfile -t there < <(docker ps --all --quiet)
    [ ${#there[@]} -gt 0 ] || return 0
    ! docker inspect --format '{{.Config.Env}}' "${there[@]}" | grep -w "DELEGATE_NAME=$1" >/dev/null ||
        fail "this engine has a delegate of the name $1 already"
}

# Shows each docker command of the script itself before it is run; what functions run is not shown.
show_commands() { trap 'case $BASH_COMMAND in docker\ * | *=\$\(docker\ *) printf "$ %s\n" "$BASH_COMMAND" ;; esac' DEBUG; }

# Shows a container's log as it is written.
follow() {
    docker logs --follow "$1" 2>&1 | sed -u "s/^/    $1: /" &
    followers+=($!)
}

# Waits until COMMAND holds: `wait_for SECONDS WHAT COMMAND…`.
wait_for() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "not within its time: $what"
        sleep 0.5
    done
}

# Whether delegate-1 runs an image, and nothing is left of its replacement.
runs() {
    [ "$(docker inspect --format '{{.Config.Image}} {{.State.Running}}' delegate-1 2>/dev/null)" = "$1 true" ] &&
        [ -z "$(docker ps --all --quiet --filter name='^/?delegate-1\.')" ]
}

# Not grep -q, which would end before the command before it, and fail it.
logged() { docker logs "$1" 2>&1 | grep -- "$2" >/dev/null; }

# Ends the script where a container's log has one of the secrets: `no_secret_in CONTAINER SECRET…`.
no_secret_in() {
    local name=$1 secret
    shift
    for secret; do
        ! docker logs "$name" 2>&1 | grep -F -- "$secret" >/dev/null || fail "the log of $name has a secret in it"
    done
}

#!/usr/bin/env bash
# Functions and variables that the walk-throughs share through `source`.
# shellcheck disable=SC2034  # The walk-throughs use the variables.

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

# Ends the script if the engine has an object of that name: `is_free container|network|volume|image NAME…`.
is_free() {
    local kind=$1 name
    shift
    for name; do
        ! docker "$kind" inspect "$name" >/dev/null 2>&1 || fail "this engine already has a $kind named $name"
    done
}

# The upgrader manages every delegate of this name, so there must be none yet.
no_delegate_is_named() {
    local there
    mapfile -t there < <(docker ps --all --quiet)
    [ ${#there[@]} -gt 0 ] || return 0
    ! docker inspect --format '{{.Config.Env}}' "${there[@]}" | grep -w "DELEGATE_NAME=$1" >/dev/null ||
        fail "this engine already has a delegate named $1"
}

# Shows each docker command of the script itself before it runs, but not those in functions.
show_commands() { trap 'case $BASH_COMMAND in docker\ * | *=\$\(docker\ *) printf "$ %s\n" "$BASH_COMMAND" ;; esac' DEBUG; }

# Shows a container's log as it is written.
follow() {
    docker logs --follow "$1" 2>&1 | sed -u "s/^/    $1: /" &
    followers+=($!)
}

# Waits until COMMAND succeeds: `wait_for SECONDS WHAT COMMAND…`. WHAT names what it waits for.
wait_for() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "timed out while waiting for $what"
        sleep 0.5
    done
}

# Whether delegate-1 runs the image, and its replacement is complete.
runs() {
    [ "$(docker inspect --format '{{.Config.Image}} {{.State.Running}}' delegate-1 2>/dev/null)" = "$1 true" ] &&
        [ -z "$(docker ps --all --quiet --filter name='^/?delegate-1\.')" ]
}

# Not grep -q: it would exit first, and so make the command before it fail.
logged() { docker logs "$1" 2>&1 | grep -- "$2" >/dev/null; }

# Ends the script if a container's log contains one of the secrets: `no_secret_in CONTAINER SECRET…`.
no_secret_in() {
    local name=$1 secret
    shift
    for secret; do
        ! docker logs "$name" 2>&1 | grep -F -- "$secret" >/dev/null || fail "the log of $name contains a secret"
    done
}

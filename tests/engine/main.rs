//! The program itself on a real engine, with real containers, a real registry and a Manager that speaks the real
//! protocol. Run with `make test`, which brings up missing parts.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

mod air_gapped;
mod auto_remove;
mod canaries;
mod compose;
mod contract;
mod daemon;
mod dead_socket;
mod doctor;
mod drains;
mod failures;
mod full_disk;
mod health;
mod health_only;
mod idle;
mod image_records;
mod itself;
mod itself_elsewhere;
mod left_overs;
mod names;
mod operator;
mod originals;
mod page;
mod pauses;
mod permissions;
mod private_registry;
mod proxies_and_tls;
mod proxy;
mod pulls;
mod quadlet;
mod readme_command;
mod reconfigure;
mod replacements;
mod reporting;
mod restarts;
mod slow_answers;
mod slow_delegates;
mod slow_engine;
mod socket_proxies;
mod swarm;
mod swarm_kills;
mod swarm_manager;
mod swarm_nodes;
mod systemd;
mod trials;
mod watching;
mod ways;

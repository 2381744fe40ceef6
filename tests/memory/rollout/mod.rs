//! Whole rollouts on an engine in memory: what the host looks like at every moment, whatever goes wrong.

mod auto_remove;
mod bad_images;
mod companions;
mod creates;
mod disk;
mod evidence;
mod failures;
mod faults;
mod health_restarts;
mod heartbeat;
pub mod host;
mod idle;
mod inconclusive;
mod inspect_errors;
mod interference;
mod left_alone;
mod log;
mod obstacles;
mod operator;
mod paths;
mod ports;
mod replicas;
mod rollback_faults;
mod slow_probes;
mod start_first;
mod stop_first;
mod waiting;

//! Deployments: what is read and what is written, without a cluster; and, where `tests/lab/kubernetes run` has one, a real one.

mod cluster;
mod file;
mod patch;
mod pods;
mod read;

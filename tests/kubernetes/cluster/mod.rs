//! A real cluster, which `tests/lab/kubernetes run` starts: Deployments with real pods, and the documented Role's token only.

mod bystanders;
mod fifty;
mod kills;
mod page;
mod pod;
mod proxy;
mod rights;
mod rollouts;
mod site;

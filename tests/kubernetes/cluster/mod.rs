//! A real cluster that `tests/lab/kubernetes run` starts: Deployments with real pods, with only the documented Role's token.

mod bystanders;
mod fifty;
mod kills;
mod page;
mod pod;
mod proxy;
mod rights;
mod rollouts;
mod settings;
mod site;

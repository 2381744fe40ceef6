//! The Docker client: its requests to an engine, and its reading of the answers. The engine is a script.

mod bounds;
mod calls;
mod copied_files;
mod credentials;
mod errors;
mod logs;
mod messages;
mod pull;
mod scripted;
mod services;
mod storage;
mod tls;
mod versions;

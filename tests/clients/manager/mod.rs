//! The Manager client: its requests, responses and errors; servers, proxies and certificates that are bad in every way.

mod delegate_token;
mod errors;
mod faults;
pub(crate) mod own_certificate;
mod requests;
mod response;
pub(crate) mod tls;

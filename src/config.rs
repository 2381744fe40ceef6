//! The environment → validated `Settings`.

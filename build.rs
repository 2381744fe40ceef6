//! Link arguments that make the static binary smaller and take nothing from it.

#![allow(clippy::print_stdout, reason = "that is how a build script speaks")]

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Packed relocations: 17 kB instead of 865 kB. musl's start-up code reads them since 1.2.4, which comes with
    // Rust 1.93; in a binary with an older one it would not get as far as main.
    if var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") && rust_minor() >= Some(93) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The 95 of `rustc 1.95.0 (59807616e 2026-04-14)`.
fn rust_minor() -> Option<u32> {
    let version = Command::new(var("RUSTC").ok()?).arg("--version").output().ok()?;
    String::from_utf8(version.stdout)
        .ok()?
        .split('.')
        .nth(1)?
        .parse()
        .ok()
}

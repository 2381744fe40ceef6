//! Makes the binary smaller, and what of it is in memory: link arguments, and time zones without the past.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "that is how a build script speaks, and fails"
)]

mod zones;

use std::env::var;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build");
    let out = PathBuf::from(var("OUT_DIR").expect("Cargo sets it"));
    zones::write(&out);
    println!("cargo::rustc-check-cfg=cfg(no_backtrace)");
    if var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        link_arguments();
    }
}

fn link_arguments() {
    // Packed relocations: 17 kB instead of 865 kB. musl's start-up code reads them since 1.2.4, which comes with
    // Rust 1.93; in a binary with an older one it would not get as far as main.
    if rust_minor() >= Some(93) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        // Of a function that libunwind has as well, the first one is linked: that of no-backtrace.
        println!("cargo::rustc-cfg=no_backtrace");
        println!("cargo::rustc-link-arg-bins=-Wl,-z,muldefs");
        let here = var("CARGO_MANIFEST_DIR").expect("Cargo sets it");
        println!("cargo::rustc-link-arg-bins=-T{here}/build/sections.ld");
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

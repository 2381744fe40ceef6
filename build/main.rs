//! Makes the binary smaller: link arguments, and time zones without the past.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "that is how a build script speaks, and fails"
)]

mod zones;

use std::env::var;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Leaves out the tables for unwinding a stack, 660 kB: the release aborts where it panics. The message of a panic needs none
/// of them, and a backtrace of a stripped binary has no names anyway. The start files of the compiler refer to their own.
const WITHOUT_UNWIND_TABLES: &str = "SECTIONS {
    /DISCARD/ : {
        *(EXCLUDE_FILE(*crtbegin*.o *crtend*.o) .eh_frame)
        *(.eh_frame_hdr .gcc_except_table .gcc_except_table.*)
    }
}
INSERT BEFORE .text;
";

fn main() {
    println!("cargo::rerun-if-changed=build");
    let out = PathBuf::from(var("OUT_DIR").expect("Cargo sets it"));
    zones::write(&out);
    if var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        link_arguments(&out);
    }
}

fn link_arguments(out: &Path) {
    // Packed relocations: 17 kB instead of 865 kB. musl's start-up code reads them since 1.2.4, which comes with
    // Rust 1.93; in a binary with an older one it would not get as far as main.
    if rust_minor() >= Some(93) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if var("PROFILE").is_ok_and(|profile| profile == "release") {
        let script = out.join("without-unwind-tables.ld");
        std::fs::write(&script, WITHOUT_UNWIND_TABLES).expect("OUT_DIR can be written");
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        println!("cargo::rustc-link-arg-bins=-T{}", script.display());
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

//! How the program is linked.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Addresses that the loader adjusts take a few bits each instead of 24 bytes, all of which it would read at the start:
    // two megabytes of memory.
    if env::var("TARGET") == env::var("HOST") && is_relr_loader() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether this machine's loader knows such addresses, as that of glibc 2.36 and later does. A program that has them doesn't
/// start with another one.
fn is_relr_loader() -> bool {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let version = output.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let mut numbers = version.trim().trim_start_matches("glibc ").split('.').map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (2, 36))
}

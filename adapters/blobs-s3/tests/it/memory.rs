//! What a large blob needs of the process's memory.

use std::process::Command;

use satchel_requirements::required;
use satchel_servers::S3Server;

use crate::stage::{PREFIX, chunks, open, put, read_to_end};

/// Tells the process that is measured which store it uses.
const URL_VARIABLE: &str = "SATCHEL_TEST_S3_URL";

/// What a put may need besides what the process has: two parts of 5 MiB, and the blocks that come next.
const MAX_GROWTH_KIB: u64 = 16 * 1024;

/// Runs itself in a process of its own, because others' memory would be measured with it.
#[tokio::test]
async fn large_blob_needs_little_memory() {
    if let Ok(url) = std::env::var(URL_VARIABLE) {
        return measure(&url).await;
    }
    let Some(server) = required(S3Server::start().await) else { return };
    let url = server.url(PREFIX);
    let measured = tokio::task::spawn_blocking(move || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory::large_blob_needs_little_memory", "--nocapture"])
            .env(URL_VARIABLE, url)
            .output()
            .unwrap()
    });
    let measured = measured.await.unwrap();
    let printed = String::from_utf8_lossy(&measured.stdout);
    assert!(measured.status.success() && printed.contains("KiB more"), "{printed}");
}

async fn measure(url: &str) {
    let blobs = open(url);
    // The client, the threads and their buffers.
    let small = put(&blobs, chunks(1)).await.expect("it works");
    read_to_end(&blobs, &small.sha256).await;
    let before = peak_kib();
    let stored = put(&blobs, chunks(800)).await.expect("it works");
    assert_eq!(stored.bytes, 800 * 64 * 1024);
    assert_eq!(read_to_end(&blobs, &stored.sha256).await, stored.bytes);
    let growth = peak_kib() - before;
    println!("{growth} KiB more");
    assert!(growth <= MAX_GROWTH_KIB, "{growth} KiB more for 50 MiB");
}

/// The most memory that this process ever had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it works");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it works");
    line.trim().trim_end_matches(" kB").parse().expect("it works")
}

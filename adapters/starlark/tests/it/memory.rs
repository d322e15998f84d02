//! Satchel's own memory, whatever a worker pours out.

use std::time::Duration;

use satchel_ports::ScriptRequest;
use satchel_requirements::exclusion::has_own_process;

use crate::stage::{World, by, failure, script, value};

/// The most memory that this process has had, in KiB.
fn most() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What the floods may cost, in KiB.
const ROOM: usize = 160 << 10;

#[tokio::test]
async fn memory_stays_flat_while_floods_pass() {
    if !has_own_process() {
        return;
    }
    let before = most();
    let piece = "x".repeat(48 << 10);
    let file = format!(
        "begin; create a.bin; yes '{{\"chunk\":{{\"text\":\"{piece}\"}}}}' | head -n 8000; end; hear; done_with 1"
    );
    let world = World::default();
    let long = ScriptRequest { time_limit: Duration::from_secs(120), ..script("") };
    let evaluation = by(&file, &long, &world).await;
    assert_eq!(value(&evaluation), 1);
    assert_eq!(world.files.lock().unwrap()[0].1, 8000 * (48 << 10));

    let flood = "begin; head -c 1073741824 /dev/zero >&2; head -c 1073741824 /dev/zero | tr '\\0' x";
    let evaluation = by(flood, &long, &World::default()).await;
    assert!(failure(&evaluation).contains("a line has no end"), "{}", failure(&evaluation));
    let grown = most() - before;
    eprintln!("375 MiB of a file and 2 GiB of noise have cost {grown} KiB");
    assert!(grown < ROOM, "{grown} KiB");
}

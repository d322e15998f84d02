//! `satchel run --open`: the desktop's browser is told where the page is.

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::Stdio,
    time::{Duration, Instant},
};

use satchel_system::real_binary::Household;

/// Starts it with a browser that writes down what it is told, and returns that and the line that greets.
fn opened(environment: &[(&str, &str)]) -> (String, Option<String>) {
    let household = Household::new();
    let told = household.root().join("told");
    let browser =
        household.file("xdg-open", format!("#!/bin/sh\necho \"$1\" > {}.new\nmv {0}.new {0}\n", told.display()));
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut command = household.satchel(&["run", "--open", "--set", "web.listen=127.0.0.1:0"]);
    command.args(["--set", "models.here.provider=offline", "--set", "model=here"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", household.work().display())).envs(environment.iter().copied());
    let mut satchel = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary can be started");
    let mut greeting = String::new();
    let out = satchel.stdout.take().expect("it is a pipe");
    BufReader::new(out).read_line(&mut greeting).expect("it greets");
    let patience = if environment.is_empty() { Duration::from_millis(500) } else { Duration::from_secs(20) };
    let begun = Instant::now();
    while !told.exists() && begun.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    satchel.kill().expect("it runs");
    satchel.wait().expect("a child can be waited for");
    (greeting, std::fs::read_to_string(told).ok())
}

#[test]
fn a_desktop_opens_the_page_and_a_server_is_left_in_peace() {
    let (greeting, told) = opened(&[("DISPLAY", ":7")]);
    let page = told.expect("the browser was started").trim().to_owned();
    assert!(greeting.contains(&page) && page.starts_with("http://127.0.0.1:"), "{page} in {greeting}");
    let (greeting, told) = opened(&[]);
    assert_eq!(told, None, "there is no desktop");
    assert!(greeting.contains("http://127.0.0.1:"), "{greeting}");
}

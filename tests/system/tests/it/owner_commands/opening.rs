//! `satchel run --open`: the desktop's browser is told where the page is.

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::Stdio,
    time::{Duration, Instant},
};

use satchel_system::real_binary::Household;

/// Starts it with a browser that writes down what it is told, and returns that and the lines that greet.
fn opened(household: &Household, environment: &[(&str, &str)]) -> (String, Option<String>) {
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
    let mut out = BufReader::new(out);
    (0..2).for_each(|_| assert!(out.read_line(&mut greeting).is_ok_and(|read| read > 0), "it greets"));
    let patience = if environment.is_empty() { Duration::from_millis(500) } else { Duration::from_secs(20) };
    let begun = Instant::now();
    while !told.exists() && begun.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    satchel.kill().expect("it runs");
    satchel.wait().expect("a child can be waited for");
    (greeting, std::fs::read_to_string(told).ok())
}

/// Other accounts of the machine can read a process's arguments, and so those of the browser.
#[test]
fn desktop_opens_page_through_private_file() {
    let household = Household::new();
    let (greeting, told) = opened(&household, &[("DISPLAY", ":7")]);
    let file = told.expect("the browser was started").trim().to_owned();
    assert!(!file.contains("#login="), "{file}");
    let mode = std::fs::metadata(&file).expect("the browser can open it").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let file = std::fs::read_to_string(file).expect("it is ours");
    let page = greeting.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:")).expect("it says where");
    assert!(file.contains(&format!("url={page}#login=")), "{file} for {greeting}");
}

#[test]
fn without_a_desktop_no_browser_is_started() {
    let (greeting, told) = opened(&Household::new(), &[]);
    assert_eq!(told, None, "there is no desktop");
    assert!(greeting.contains("http://127.0.0.1:"), "{greeting}");
}

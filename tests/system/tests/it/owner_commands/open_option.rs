//! `satchel run --open`: the desktop's browser is told where the page is.

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::Stdio,
    time::{Duration, Instant},
};

use satchel_system::real_binary::TestHome;

/// Starts it with a browser that writes down what it is told, and returns that and the lines that greet.
fn run_with_browser(home: &TestHome, environment: &[(&str, &str)]) -> (String, Option<String>) {
    let url_file = home.root().join("told");
    let browser =
        home.write_file("xdg-open", format!("#!/bin/sh\necho \"$1\" > {}.new\nmv {0}.new {0}\n", url_file.display()));
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut command = home.satchel_command(&["run", "--open", "--set", "web.listen=127.0.0.1:0"]);
    command.args(["--set", "models.here.provider=offline", "--set", "model=here"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", home.work_directory().display())).envs(environment.iter().copied());
    let mut satchel = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary can be started");
    let mut greeting = String::new();
    let out = satchel.stdout.take().expect("it is a pipe");
    let mut out = BufReader::new(out);
    (0..2).for_each(|_| assert!(out.read_line(&mut greeting).is_ok_and(|read| read > 0), "it greets"));
    let timeout = if environment.is_empty() { Duration::from_millis(500) } else { Duration::from_secs(20) };
    let started_at = Instant::now();
    while !url_file.exists() && started_at.elapsed() < timeout {
        std::thread::sleep(Duration::from_millis(20));
    }
    satchel.kill().expect("it runs");
    satchel.wait().expect("a child can be waited for");
    (greeting, std::fs::read_to_string(url_file).ok())
}

/// Other accounts of the machine can read a process's arguments, and so those of the browser.
#[test]
fn desktop_opens_page_through_private_file() {
    let home = TestHome::new();
    let (greeting, told) = run_with_browser(&home, &[("DISPLAY", ":7")]);
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
    let (greeting, told) = run_with_browser(&TestHome::new(), &[]);
    assert_eq!(told, None, "there is no desktop");
    assert!(greeting.contains("http://127.0.0.1:"), "{greeting}");
}

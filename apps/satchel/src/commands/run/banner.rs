//! What a person sees at the start: the addresses, how to log in, and the page in their browser.

use std::{
    ffi::OsString,
    io::Write,
    net::{IpAddr, SocketAddr},
    path::{self, Path, PathBuf},
    process::Stdio,
};

use satchel_web::{LoginLinks, WebError};
use tokio::process::Command;

use super::{OPEN_TO_ALL, page::key_file};
use crate::{
    cli::Role,
    commands::data_owner::{own_user, quote},
    config::{LoadedConfig, leaf::list::OnOff, origin::SettingOrigin, paths::SYSTEM_FILE, web::WebToken},
    models::ModelSelection,
};

/// What the banner tells of a process.
pub(super) struct Banner<'a> {
    pub(super) loaded: &'a LoadedConfig,
    pub(super) selection: &'a ModelSelection,
    pub(super) role: Role,
    /// The page's address, if it is served.
    pub(super) address: Option<SocketAddr>,
    /// Whether it goes to a journal that others read, too.
    pub(super) is_journalled: bool,
}

impl Banner<'_> {
    /// Prints the addresses, the model, the data directory, and how to log in; opens the page in the browser that is given.
    pub(super) fn show(&self, browser: Option<&str>, out: &mut dyn Write) -> anyhow::Result<()> {
        let config = self.loaded.config();
        let login_links = LoginLinks::new(&key_file(config));
        let needs_login = self.address.is_some() && !matches!(config.web.token, WebToken::Off);
        let link = if needs_login && !self.is_journalled { ok_or_log(login_links.create()) } else { None };
        self.print(link.as_deref(), out)?;
        if let (Some(browser), Some(address)) = (browser, self.address) {
            let page = if needs_login { ok_or_log(login_links.create_page()) } else { None };
            let page = page.unwrap_or_else(|| PathBuf::from(format!("http://{}/", browser_address(address))));
            open_page(browser, &page);
        }
        Ok(())
    }

    fn print(&self, link: Option<&str>, out: &mut dyn Write) -> anyhow::Result<()> {
        let Self { loaded, selection, role, address, is_journalled } = *self;
        let config = loaded.config();
        let mut addresses = Vec::new();
        if let Some(address) = address {
            let others = if address.ip().is_unspecified() { " and this machine's other addresses" } else { "" };
            addresses.push(format!("at http://{}/{others}", browser_address(address)));
            tracing::info!(%address, "serving the page");
        }
        let platforms = [
            ("Telegram", config.telegram.token.is_some()),
            ("Discord", config.discord.token.is_some()),
            ("NATS", config.nats.requests == OnOff::On),
        ];
        for (name, is_hosted) in platforms {
            if is_hosted {
                addresses.push(format!("on {name}"));
            }
        }
        let data = config.storage.data_dir().display();
        let addresses = match role {
            Role::All => addresses.join(" and "),
            Role::Gateway => format!("{} (gateway: agents answer)", addresses.join(" and ")),
            Role::Agent => "an agent: gateways receive what it answers".to_owned(),
            Role::Delivery => "a delivery worker: it sends what agents answer".to_owned(),
        };
        let login = match link {
            Some(link) => {
                format!("Log in at {link} (works once, for 10 minutes; `satchel web link` prints a new one)\n")
            }
            None if address.is_some() && matches!(config.web.token, WebToken::Off) => format!("{OPEN_TO_ALL}\n"),
            None if address.is_some() && is_journalled => {
                let user = own_user();
                let command = link_command(loaded, &user);
                format!("Log in with a link that `satchel web link` prints to the user {user}: `{command}`\n")
            }
            None if address.is_some() => "Log in with a link from `satchel web link`\n".to_owned(),
            None => String::new(),
        };
        let lines =
            format!("Satchel is {addresses} · {} · data in {data} · Ctrl-C stops it\n{login}", selection.title());
        // In one write: a reader that closes after the first line must not make the second one fail.
        out.write_all(lines.as_bytes())?;
        out.flush()?;
        Ok(())
    }
}

/// The command by which the administrator of a service gets a login link.
fn link_command(loaded: &LoadedConfig, user: &str) -> String {
    let mut words = vec!["sudo".to_owned(), "-u".to_owned(), quote(user)];
    words.extend(["satchel", "web", "link"].map(str::to_owned));
    if let Some(file) = loaded.file.as_deref().filter(|file| *file != Path::new(SYSTEM_FILE)) {
        let file = path::absolute(file).unwrap_or_else(|_| file.to_owned());
        words.extend(["--config".to_owned(), quote(&file.to_string_lossy())]);
    }
    let data_dir = loaded.settings.iter().find(|setting| setting.key == "storage.data_dir");
    let is_elsewhere =
        |origin: &SettingOrigin| matches!(origin, SettingOrigin::Environment(_) | SettingOrigin::CommandLine);
    if data_dir.is_some_and(|setting| is_elsewhere(&setting.origin)) {
        let data_dir = loaded.config().storage.data_dir();
        let data_dir = path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        words.extend(["--set".to_owned(), quote(&format!("storage.data_dir={}", data_dir.display()))]);
    }
    words.join(" ")
}

/// Whether standard output goes to the journal of systemd: every member of its group reads it. A terminal that systemd has
/// started passes the same variables on to what runs in it.
#[must_use]
pub fn is_journalled(environment: &[(OsString, OsString)], is_terminal: bool) -> bool {
    const VARIABLES: [&str; 3] = ["INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET"];
    let is_service =
        environment.iter().any(|(key, value)| VARIABLES.iter().any(|name| key == name) && !value.is_empty());
    is_service && !is_terminal
}

/// The program that opens a page on this desktop; `None` without a desktop.
#[must_use]
pub fn browser(environment: &[(OsString, OsString)]) -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        return Some("open");
    }
    let is_set = |name: &str| environment.iter().any(|(key, value)| key == name && !value.is_empty());
    (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")).then_some("xdg-open")
}

/// Opens the page. A failure is only logged: the banner shows the page's address.
fn open_page(browser: &str, page: &Path) {
    let quiet = Stdio::null;
    let opened = Command::new(browser).arg(page).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    match opened {
        Ok(mut browser) => drop(tokio::spawn(async move { browser.wait().await })),
        Err(error) => tracing::info!(
            error = &error as &dyn std::error::Error,
            browser,
            "opening the browser failed; the first line shows the page's address"
        ),
    }
}

/// A login link, if one could be stored; a failure is only logged, and serving continues.
fn ok_or_log<T>(link: Result<Option<T>, WebError>) -> Option<T> {
    link.unwrap_or_else(|error| {
        let error = format!("{:#}", anyhow::Error::from(error));
        tracing::warn!(error, "failed to create a login link; fix the cause, then run `satchel web link`");
        None
    })
}

/// The address as a browser on this machine opens it.
fn browser_address(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("127.0.0.1:{}", address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("[::1]:{}", address.port()),
        _ => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigSources, load_text};

    #[test]
    fn journal_is_not_a_terminal() {
        let environment = |name: &str| [(OsString::from(name), OsString::from("8:1"))];
        for name in ["INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET"] {
            assert!(is_journalled(&environment(name), false), "{name}");
            assert!(!is_journalled(&environment(name), true), "{name}");
        }
        assert!(!is_journalled(&environment("HOME"), false));
    }

    #[test]
    fn link_command_finds_configuration_and_data() {
        let directory = tempfile::tempdir().unwrap();
        let command = |file: &str, set: &[String]| {
            let sources = ConfigSources { file: None, set, environment: &[], cwd: directory.path() };
            link_command(&load_text(Path::new(file), "{}\n", &sources).unwrap(), "satchel")
        };
        assert_eq!(command(SYSTEM_FILE, &[]), "sudo -u satchel satchel web link");
        assert_eq!(
            command("/srv/a b.yaml", &["storage.data_dir=/srv/data".to_owned()]),
            "sudo -u satchel satchel web link --config '/srv/a b.yaml' --set storage.data_dir=/srv/data"
        );
    }
}

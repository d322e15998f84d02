//! Recognises that Satchel is started a second time, before anything of it disturbs the first one.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use satchel_ledger_sqlite::open_data_dirs;

use crate::{
    cli::Role,
    config::Config,
    running_server::{identify_server, local_address},
    stores,
};

/// Checks that no Satchel serves the page's address yet. Any other fault of the address is reported when the page is opened.
/// Processes may share their data: one takes over when another ends, so that is only logged.
///
/// # Errors
/// When one does; the message says where, with which data, and how to log in.
pub async fn check_first_start(config: &Config, role: Role) -> anyhow::Result<()> {
    let open = open_data_dirs();
    let data_dir =
        stores::sqlite_dir(config).map(|directory| directory.canonicalize().unwrap_or_else(|_| directory.to_owned()));
    if let Some(address) = config.web.listen.0.filter(|_| role.receives())
        && let Some(version) = find_server(address).await
    {
        let running = format!("Satchel {version} is already running at http://{}/", local_address(address));
        anyhow::bail!("{running}{}", describe_data(data_dir.as_deref(), &open));
    }
    // Who gives a process a role of its own runs several.
    if role == Role::All
        && let Some(directory) = data_dir.filter(|directory| open.contains(directory))
    {
        tracing::info!(
            data = %directory.display(),
            "Satchel is already running with this data; this process works beside it, and takes over when it ends"
        );
    }
    Ok(())
}

/// The version of the Satchel that has taken an address.
async fn find_server(address: SocketAddr) -> Option<String> {
    let is_taken = TcpListener::bind(address).is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
    if is_taken { identify_server(address).await } else { None }
}

/// With which data the other one runs, as far as this user can see it, and what to do.
fn describe_data(data_dir: Option<&Path>, open: &[PathBuf]) -> String {
    match data_dir {
        Some(directory) if open.iter().any(|open| open == directory) => {
            let directory = directory.display();
            format!(", with the data in {directory}; `satchel web link` prints a link that logs you in")
        }
        Some(_) => {
            let open: Vec<String> = open.iter().map(|directory| directory.display().to_string()).collect();
            let other = if open.is_empty() { String::new() } else { format!(" ({})", open.join(", ")) };
            format!(
                ", with other data{other}; `satchel web link` with its configuration prints a link that logs you in; set \
                 `web.listen` to another port to run this one beside it"
            )
        }
        None => {
            "; `satchel web link` prints a link that logs you in; set `web.listen` to another port to run this one \
                 beside it"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_and_other_data_are_told_apart() {
        let [here, there] = ["/home/ann/satchel-data", "/var/lib/satchel"].map(PathBuf::from);
        let same = describe_data(Some(&here), &[there.clone(), here.clone()]);
        assert_eq!(
            same,
            ", with the data in /home/ann/satchel-data; `satchel web link` prints a link that logs you in"
        );
        let other = describe_data(Some(&here), &[there]);
        assert!(other.starts_with(", with other data (/var/lib/satchel); `satchel web link` with its"), "{other}");
        assert!(describe_data(Some(&here), &[]).starts_with(", with other data; "));
        assert!(describe_data(None, &[here]).starts_with("; `satchel web link` prints"));
    }
}

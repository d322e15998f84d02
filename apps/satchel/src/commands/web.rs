//! `satchel web`: login links for the page of a running server.

use std::io::Write;

use satchel_web::LoginLinks;

use super::{
    UsageError,
    run::{OPEN_TO_ALL, key_file},
};
use crate::config::{Config, web::WebToken};

/// Prints a link that logs a browser in once; the server may be another process.
///
/// # Errors
/// When there is no page to log in to, or the link can't be stored.
pub fn link(config: &Config, out: &mut dyn Write) -> anyhow::Result<()> {
    if config.web.listen.0.is_none() {
        let reason = "there is no page to log in to: `web.listen` is off; set it to an address such as 127.0.0.1:8787";
        return Err(UsageError(reason.to_owned()).into());
    }
    if matches!(config.web.token, WebToken::Off) {
        return Err(UsageError(format!("{OPEN_TO_ALL}, so you need no link; open the page's address")).into());
    }
    let link = LoginLinks::new(&key_file(config)).create()?.ok_or_else(|| {
        let data_dir = config.storage.data_dir().display();
        anyhow::anyhow!(
            "no page was served yet with the data in {data_dir}; start `satchel run` first, or name the running \
             server's configuration with `--config` or `storage.data_dir`"
        )
    })?;
    writeln!(out, "{link}")?;
    super::print_error("It works once, for 10 minutes, while `satchel run` serves the page.");
    Ok(())
}

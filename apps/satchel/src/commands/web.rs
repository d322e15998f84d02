//! `satchel web …`: login links for the page of a running server, and the logins of browsers.

use std::io::Write;

use anyhow::bail;
use satchel_domain::LoginId;
use satchel_ports::{Logins, ledger::PageLogin};
use satchel_web::LoginLinks;

use super::{
    UsageError, format_timestamp, one_line,
    run::{OPEN_TO_ALL, key_file},
    write_json, write_table,
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

/// How many characters of a browser's name are shown at most.
const MAX_CLIENT_CHARS: usize = 60;

/// Lists the browsers that are logged in.
///
/// # Errors
/// When the ledger fails or the output can't be written.
pub async fn list_logins(logins: &dyn Logins, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let logins = logins.list_logins().await?;
    if json {
        return Ok(write_json(out, &serde_json::json!({ "version": 1, "logins": logins }))?);
    }
    if logins.is_empty() {
        writeln!(out, "no browser is logged in")?;
        return Ok(());
    }
    let row = |login: &PageLogin| {
        vec![
            login.id.to_string(),
            one_line(&login.client, MAX_CLIENT_CHARS),
            format!("used {}", format_timestamp(login.used_at)),
            format!("since {}", format_timestamp(login.created_at)),
            format!("until {}", format_timestamp(login.expires_at)),
        ]
    };
    write_table(out, &logins.iter().map(row).collect::<Vec<_>>())?;
    Ok(())
}

/// Ends the logins with these ids, in their order, and names those that there are not at the end.
///
/// # Errors
/// When there is no login with an id, the ledger fails, or the output can't be written.
pub async fn end_logins(logins: &dyn Logins, ids: &[LoginId], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut unknown = Vec::new();
    for id in ids {
        match logins.end_login(*id).await? {
            true => writeln!(out, "ended: {id}")?,
            false => unknown.push(id.to_string()),
        }
    }
    if !unknown.is_empty() {
        bail!("there is no login {}; `satchel web logins` lists those that have not ended", unknown.join(", "));
    }
    Ok(())
}

/// Ends all logins.
///
/// # Errors
/// When the ledger fails or the output can't be written.
pub async fn end_all_logins(logins: &dyn Logins, out: &mut dyn Write) -> anyhow::Result<()> {
    match logins.end_logins(None).await? {
        0 => writeln!(out, "no browser was logged in")?,
        1 => writeln!(out, "ended 1 login")?,
        count => writeln!(out, "ended {count} logins")?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use satchel_domain::Timestamp;
    use satchel_ports::MockLogins;

    use super::*;

    fn login(id: &str, client: &str) -> PageLogin {
        PageLogin {
            id: id.parse().unwrap(),
            issuer: "a fingerprint".to_owned(),
            client: client.to_owned(),
            created_at: Timestamp(1_700_000_000_000),
            used_at: Timestamp(1_700_000_060_000),
            expires_at: Timestamp(1_702_592_000_000),
        }
    }

    const FIRST: &str = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e";

    const SECOND: &str = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6f";

    async fn list(logins: Vec<PageLogin>, json: bool) -> String {
        let mut ledger = MockLogins::new();
        ledger.expect_list_logins().returning(move || Ok(logins.clone()));
        let mut out = Vec::new();
        list_logins(&ledger, json, &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    }

    #[tokio::test]
    async fn logins_are_listed_without_what_proves_them() {
        let logins = vec![login(FIRST, "Firefox on Linux"), login(SECOND, "a\u{1b}[2J\nb")];
        let times = "used 2023-11-14 22:14:20Z  since 2023-11-14 22:13:20Z  until 2023-12-14 22:13:20Z";
        assert_eq!(
            list(logins.clone(), false).await,
            format!("{FIRST}  Firefox on Linux  {times}\n{SECOND}  a[2J b            {times}\n")
        );
        let json: serde_json::Value = serde_json::from_str(&list(logins, true).await).unwrap();
        let first = serde_json::json!({
            "id": FIRST,
            "client": "Firefox on Linux",
            "created_at": 1_700_000_000_000_i64,
            "used_at": 1_700_000_060_000_i64,
            "expires_at": 1_702_592_000_000_i64,
        });
        assert_eq!((&json["version"], &json["logins"][0]), (&1.into(), &first));
        assert_eq!(list(Vec::new(), false).await, "no browser is logged in\n");
    }

    #[tokio::test]
    async fn ending_names_what_has_not_ended() {
        let [first, second] = [FIRST, SECOND].map(|id| id.parse::<LoginId>().unwrap());
        let mut ledger = MockLogins::new();
        ledger.expect_end_login().returning(move |id| Ok(id == first));
        ledger.expect_end_logins().withf(Option::is_none).returning(|_| Ok(2));
        let mut out = Vec::new();
        let error = end_logins(&ledger, &[second, first], &mut out).await.unwrap_err().to_string();
        assert!(error.contains(SECOND) && error.contains("satchel web logins"), "{error}");
        assert!(!error.contains(FIRST), "it has ended: {error}");
        end_all_logins(&ledger, &mut out).await.unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("ended: {FIRST}\nended 2 logins\n"));
    }
}

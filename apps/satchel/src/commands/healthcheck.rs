//! `satchel healthcheck`: asks a running process whether it is ready, for images that have no program to ask with.

use std::{io::Write, net::SocketAddr};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::{UsageError, one_line};
use crate::{
    cli::Role,
    config::Config,
    platforms,
    running_server::{MAX_RESPONSE_BYTES, PROBE_TIMEOUT, local_address},
};

/// What a page says that isn't ready.
#[derive(Deserialize)]
struct ReadinessProblem {
    detail: String,
}

/// Asks the process of this role that runs with the configuration.
///
/// # Errors
/// When it doesn't answer in time or isn't ready, or when the configuration has no address to ask at.
pub async fn run(role: Role, config: &Config, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let url = health_url(role, config.web.listen.0, config.metrics.listen.0)?;
    let http = platforms::local_client().context("failed to set up the HTTP client")?;
    let answer = http.get(&url).timeout(PROBE_TIMEOUT).send().await;
    let mut response = answer.map_err(reqwest::Error::without_url).with_context(|| format!("no answer from {url}"))?;
    let status = response.status();
    if status.is_success() {
        writeln!(out, "ready")?;
        return Ok(());
    }
    let body = platforms::read_body(&mut response, MAX_RESPONSE_BYTES).await.ok().flatten().unwrap_or_default();
    let problem: Option<ReadinessProblem> = serde_json::from_slice(&body).ok();
    let detail = problem.map(|problem| format!(": {}", one_line(&problem.detail, 200))).unwrap_or_default();
    bail!("not ready: {url} answered {}{detail}", status.as_u16())
}

/// Where a process of this role says whether it is ready. One without a page has only its metrics.
fn health_url(role: Role, page: Option<SocketAddr>, metrics: Option<SocketAddr>) -> Result<String, UsageError> {
    match (page.filter(|_| role.receives()), metrics) {
        (Some(page), _) => Ok(format!("http://{}/readyz", local_address(page))),
        (None, Some(metrics)) => Ok(format!("http://{}/metrics", local_address(metrics))),
        (None, None) => Err(UsageError(format!(
            "there is no address to ask at: a process with the role {} needs `metrics.listen`, such as 127.0.0.1:9187",
            role.name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_asked_where_the_role_has_one() {
        let page = Some("0.0.0.0:8787".parse().unwrap());
        let metrics = Some("[::]:9187".parse().unwrap());
        let url = |role, page, metrics| health_url(role, page, metrics).map_err(|error| error.to_string());
        for role in [Role::All, Role::Gateway] {
            assert_eq!(url(role, page, metrics).unwrap(), "http://127.0.0.1:8787/readyz");
        }
        for role in [Role::Agent, Role::Delivery] {
            assert_eq!(url(role, page, metrics).unwrap(), "http://[::1]:9187/metrics");
        }
        assert_eq!(url(Role::All, None, metrics).unwrap(), "http://[::1]:9187/metrics");
        assert!(url(Role::Agent, page, None).unwrap_err().contains("`metrics.listen`"));
    }
}

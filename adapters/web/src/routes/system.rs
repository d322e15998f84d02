//! The running system, for owners: what runs, the checks, the settings, the people and the outbox.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use satchel_domain::{ChannelName, PartId};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::{ApiPath, read_json};
use crate::{
    Administration, AdministrationError,
    administration::{SystemFinding, SystemOverview, SystemPart, SystemPeople, SystemSetting},
    problem::{Problem, ProblemBody},
    state::AppState,
};

/// How long all checks may take together; below the timeout of a response.
const CHECKS_TIMEOUT: Duration = Duration::from_secs(50);

/// The longest key of a request to send a part again.
const MAX_KEY_CHARS: usize = 64;

/// What the checks found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SystemFindings {
    findings: Vec<SystemFinding>,
}

/// All settings.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SystemSettings {
    settings: Vec<SystemSetting>,
}

/// The parts that are in progress or failed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SystemOutbox {
    parts: Vec<SystemPart>,
}

/// An owner's decision about a pairing code.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewPairingDecision {
    /// Whether the person is approved, not refused.
    approve: bool,
}

/// A request to send a part again.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewResend {
    /// Chosen by the client: the part is sent again once for each key.
    key: String,
}

/// Describes what runs: channels, models, tools, schedules, reminders and the room on the disk.
#[utoipa::path(
    get,
    path = "/api/system",
    responses(
        (status = 200, body = SystemOverview),
        (status = 403, description = "You aren't an owner.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn overview(State(state): State<Arc<AppState>>) -> Result<Json<SystemOverview>, Problem> {
    Ok(Json(owners_port(&state)?.overview().await?))
}

/// Runs the checks of `satchel doctor`, which may take a minute; nothing is changed.
#[utoipa::path(
    post,
    path = "/api/system/checks",
    responses(
        (status = 200, body = SystemFindings),
        (status = 403, description = "You aren't an owner.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The checks are already running.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "The checks took too long.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn check(State(state): State<Arc<AppState>>) -> Result<Json<SystemFindings>, Problem> {
    let administration = Arc::clone(owners_port(&state)?);
    let Ok(permit) = Arc::clone(&state.checks).try_acquire_owned() else {
        let detail = "The checks are already running. Try again when they are done.";
        return Err(Problem::new(StatusCode::CONFLICT, "busy", detail));
    };
    // As a task of its own: a client that leaves doesn't free the permit while they run.
    let checks = tokio::spawn(async move {
        let _permit = permit;
        timeout(CHECKS_TIMEOUT, administration.check()).await
    });
    let unfinished = |reason: &str| {
        tracing::warn!(reason, "the checks for the page did not finish");
        Problem::unavailable("The checks did not finish in time. Run `satchel doctor` on the machine.")
    };
    let findings = checks.await.map_err(|_| unfinished("failed"))?.map_err(|_| unfinished("timed out"))?;
    Ok(Json(SystemFindings { findings }))
}

/// Lists every setting with its value, where it comes from and what changes it. Secrets are masked.
#[utoipa::path(
    get,
    path = "/api/system/settings",
    responses(
        (status = 200, body = SystemSettings),
        (status = 403, description = "You aren't an owner.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn settings(State(state): State<Arc<AppState>>) -> Result<Json<SystemSettings>, Problem> {
    Ok(Json(SystemSettings { settings: owners_port(&state)?.settings() }))
}

/// Lists the people who may talk on the platforms, and those who ask to.
#[utoipa::path(
    get,
    path = "/api/system/people",
    responses(
        (status = 200, body = SystemPeople),
        (status = 403, description = "You aren't an owner.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn people(State(state): State<Arc<AppState>>) -> Result<Json<SystemPeople>, Problem> {
    Ok(Json(owners_port(&state)?.people().await?))
}

/// Approves or refuses the person of a pairing code.
#[utoipa::path(
    post,
    path = "/api/system/pairings/{code}",
    params(("code" = String, Path, description = "The code, such as `ABCD-EFGH`.")),
    request_body = NewPairingDecision,
    responses(
        (status = 204, description = "Decided; an approved person is told."),
        (status = 403, description = "You aren't an owner.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The code has expired, or was decided otherwise.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn decide_pairing(
    State(state): State<Arc<AppState>>,
    ApiPath(code): ApiPath<String>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let administration = owners_port(&state)?;
    let code = code.parse().map_err(|_| Problem::not_found("code"))?;
    let NewPairingDecision { approve } = read_json(request).await?;
    administration.decide_pairing(code, approve).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Revokes an approval that a code gave. People whom the configuration allows are removed there.
#[utoipa::path(
    delete,
    path = "/api/system/people/{channel}/{id}",
    params(
        ("channel" = String, Path, description = "The channel, such as `telegram`."),
        ("id" = String, Path, description = "The channel's id of the person."),
    ),
    responses(
        (status = 204, description = "No code approves this person any more."),
        (status = 403, description = "You aren't an owner.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn revoke(
    State(state): State<Arc<AppState>>,
    ApiPath((channel, id)): ApiPath<(String, String)>,
) -> Result<StatusCode, Problem> {
    let administration = owners_port(&state)?;
    let channel = ChannelName::new(channel).map_err(|_| Problem::not_found("channel"))?;
    administration.revoke_person(&channel, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the parts of replies that are in progress or failed on all channels, the newest first, without their words.
#[utoipa::path(
    get,
    path = "/api/system/outbox",
    responses(
        (status = 200, body = SystemOutbox),
        (status = 403, description = "You aren't an owner.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn outbox(State(state): State<Arc<AppState>>) -> Result<Json<SystemOutbox>, Problem> {
    Ok(Json(SystemOutbox { parts: owners_port(&state)?.outbox().await? }))
}

/// Gives up a part that is not being sent.
#[utoipa::path(
    delete,
    path = "/api/system/outbox/{part}",
    params(("part" = String, Path, description = "The part's id.")),
    responses(
        (status = 204, description = "It is given up."),
        (status = 403, description = "You aren't an owner.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is being sent, or has arrived.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn discard(
    State(state): State<Arc<AppState>>,
    ApiPath(part): ApiPath<String>,
) -> Result<StatusCode, Problem> {
    owners_port(&state)?.discard_part(read_part_id(&part)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends the text and the files of a part again.
#[utoipa::path(
    post,
    path = "/api/system/outbox/{part}/resend",
    params(("part" = String, Path, description = "The part's id.")),
    request_body = NewResend,
    responses(
        (status = 202, description = "They are sent in the part's conversation, in order."),
        (status = 403, description = "You aren't an owner.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is still being sent, or is nothing that is sent again.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn resend(
    State(state): State<Arc<AppState>>,
    ApiPath(part): ApiPath<String>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let administration = owners_port(&state)?;
    let part = read_part_id(&part)?;
    let NewResend { key } = read_json(request).await?;
    if !(1..=MAX_KEY_CHARS).contains(&key.chars().count()) || key.chars().any(char::is_control) {
        return Err(Problem::invalid(format!("`key` must have 1 to {MAX_KEY_CHARS} characters.")));
    }
    administration.resend_part(part, &key).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Returns the port if the people of the page are owners.
fn owners_port(state: &AppState) -> Result<&Arc<dyn Administration>, Problem> {
    let refused = || Problem::new(StatusCode::FORBIDDEN, "not_owner", "Only an owner can see and change this.");
    state.administration.as_ref().ok_or_else(refused)
}

fn read_part_id(part: &str) -> Result<PartId, Problem> {
    part.parse().map_err(|_| Problem::not_found("part"))
}

fn refusal(detail: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, "refused", detail)
}

impl From<AdministrationError> for Problem {
    fn from(error: AdministrationError) -> Self {
        match error {
            AdministrationError::Refused(detail) => refusal(detail),
            AdministrationError::Unknown(item) => Self::not_found(item),
            AdministrationError::Ledger(error) => error.into(),
        }
    }
}

//! The logins of browsers: listed, and ended.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use satchel_ports::ledger::PageLogin;

use super::ApiPath;
use crate::{
    auth::Access,
    problem::{Problem, ProblemBody},
    state::AppState,
    wire::{ListedLogin, Logins},
};

/// Lists the logins that have not ended, the most recently used first.
#[utoipa::path(get, path = "/api/logins", responses((status = 200, body = Logins)))]
pub(crate) async fn list(State(state): State<Arc<AppState>>, request: Request) -> Result<Json<Logins>, Problem> {
    let access: Option<Access> = request.extensions().get().copied();
    let logins = state.logins.list_logins().await?;
    Ok(Json(Logins { logins: logins.into_iter().map(|login| to_wire_login(login, access)).collect() }))
}

fn to_wire_login(login: PageLogin, access: Option<Access>) -> ListedLogin {
    ListedLogin {
        id: login.id.to_string(),
        client: login.client,
        created_at: login.created_at.0,
        used_at: login.used_at.0,
        expires_at: login.expires_at.0,
        current: access == Some(Access::Login(login.id)),
    }
}

/// Ends a login: the next request of its browser is refused, and what is still being sent to it ends.
#[utoipa::path(
    delete,
    path = "/api/logins/{login}",
    params(("login" = String, Path, description = "The login's id.")),
    responses(
        (status = 204, description = "It has ended."),
        (status = 404, description = "There is no such login, or it has ended before.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn end_login(
    State(state): State<Arc<AppState>>,
    ApiPath(login): ApiPath<String>,
) -> Result<StatusCode, Problem> {
    let login = login.parse().map_err(|_| Problem::not_found("login"))?;
    match state.logins.end_login(login).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::not_found("login")),
    }
}

//! Extractors for paths and queries that reject with a [`Problem`].

use axum::{
    extract::{FromRequestParts, Path, Query},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The variable segments of a path.
#[derive(Debug)]
pub(crate) struct ApiPath<T>(pub(crate) T);

/// The query parameters.
#[derive(Debug)]
pub(crate) struct ApiQuery<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(segments)| Self(segments)).map_err(|_| Problem::not_found("page"))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(parameters)| Self(parameters)).map_err(|error| {
            Problem::invalid(format!("The parameters can't be read: {}.", error.body_text().trim_end_matches('.')))
        })
    }
}

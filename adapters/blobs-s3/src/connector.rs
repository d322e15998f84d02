//! HTTP for the library, which retries every 5xx: an answer that says that the server is full has another status here, so
//! that people are told at once instead of after all retries.

use async_trait::async_trait;
use object_store::{
    ClientOptions,
    client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector},
};
use reqwest::StatusCode;

/// What a server that has no room answers, and what stands for it: a status without a meaning.
const INSUFFICIENT_STORAGE: u16 = 507;
const STAND_IN: u16 = 499;

/// Makes clients that retry no full server.
#[derive(Debug)]
pub(crate) struct BucketConnector;

#[derive(Debug)]
struct BucketService(HttpClient);

/// The status that the server has answered with.
pub(crate) fn original_status(status: u16) -> u16 {
    if status == STAND_IN { INSUFFICIENT_STORAGE } else { status }
}

impl HttpConnector for BucketConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(BucketService(ReqwestConnector::default().connect(options)?)))
    }
}

#[async_trait]
impl HttpService for BucketService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut response = self.0.execute(request).await?;
        if response.status() == StatusCode::INSUFFICIENT_STORAGE {
            *response.status_mut() = StatusCode::from_u16(STAND_IN).expect("it has three digits");
        }
        Ok(response)
    }
}

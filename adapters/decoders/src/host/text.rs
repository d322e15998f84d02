//! The text of documents, which is read from each once and then kept.

mod blobs;
mod cache;
mod pages;
mod reader;
mod recognition;

pub use self::{
    blobs::TextEvictingBlobs, cache::TextCache, reader::CachedDocumentReader, recognition::RecognitionSettings,
};

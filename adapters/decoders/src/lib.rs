//! Documents, images and sound: implements the ports [`satchel_ports::DocumentReader`], [`satchel_ports::ImageScaler`],
//! [`satchel_ports::AudioDecoder`] and [`satchel_ports::MediaMeter`] with worker processes that decode them.
//!
//! A file can crash or stall what decodes it, so none is decoded here (ADR 0020): each gets its own worker,
//! `satchel-decoder`, which knows nothing but the [`protocol`].

pub mod document_head;
#[cfg(feature = "host")]
mod host;
pub mod protocol;
pub mod selection;

#[cfg(feature = "host")]
pub use host::{
    CachedDocumentReader, DecoderSettings, DecoderWorkers, RecognitionSettings, TextCache, TextEvictingBlobs, probe,
};

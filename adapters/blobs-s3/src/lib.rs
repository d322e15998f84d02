//! The bytes of files in a bucket of S3, or of a server that speaks as it does.

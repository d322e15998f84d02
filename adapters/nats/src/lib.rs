//! Events on NATS JetStream, and the requests of other programs.

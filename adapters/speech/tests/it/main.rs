//! Speech over real pipes and real HTTP: programs of one's own, and a strict server.

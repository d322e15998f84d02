//! The ledger in a PostgreSQL database, which processes on several machines share.

//! The ports of the ledger: which statements each verb runs, on the writer or on a reader.

mod archive;
mod inbox;
mod leases;
mod outbox;
mod pairings;
mod storage;
mod turns;

/// Runs a query on a reader.
macro_rules! read {
    ($ledger:ident, $doing:expr, $query:path $(, $argument:expr)*) => {{
        let mut reader = $ledger.reader($doing).await?;
        let read = $query(&mut $crate::session::Session::reading(&mut reader) $(, $argument)*).await;
        // One that failed is closed: another takes its place, whatever was wrong with it.
        if read.is_ok() {
            reader.give_back();
        }
        read.map_err(|error| error.at_port($doing))
    }};
}
use read;

//! The ports of the ledger: each verb as a transaction of the writer, or as a query beside it.

use async_trait::async_trait;
use satchel_ports::ledger::{LedgerError, verbs::types::*};

use crate::{SqliteLedger, arguments::Argument, custom, verbs};

/// Runs one verb of the table.
macro_rules! run_verb {
    (custom $ledger:ident $verb:ident($($argument:ident: $type:ty),*)) => {
        custom::$verb($ledger, $($argument),*).await
    };
    ($kind:ident $operation:literal $ledger:ident $verb:ident($($argument:ident: $type:ty),*)) => {{
        $(let $argument = $argument.into_owned();)*
        let verb = async move |db: &_| verbs::$verb(db, $(<$type as Argument>::lend(&$argument)),*).await;
        $ledger.$kind($operation, verb).await
    }};
}

/// Implements each port by running its verbs.
macro_rules! implement {
    ($($port:ident { $($kind:ident $($operation:literal)? fn $verb:ident($($argument:ident: $type:ty),*) -> $output:ty;)* })*) => {
        $(#[async_trait]
        impl $port for SqliteLedger {
            $(async fn $verb(&self, $($argument: $type),*) -> Result<$output, LedgerError> {
                run_verb!($kind $($operation)? self $verb($($argument: $type),*))
            })*
        })*
    };
}

satchel_ports::ledger_verbs!(implement);

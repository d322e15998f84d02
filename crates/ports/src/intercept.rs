//! A ledger that calls a hook around each verb, so that a test can make a verb fail or hang, or end its process there.

use std::sync::Arc;

use async_trait::async_trait;

use crate::ledger::{LedgerError, verbs::types::*};

/// What happens around each verb. A verb is named as in `ledger.receive`.
#[async_trait]
pub trait Hook: Send + Sync {
    /// What `before_call` hands to `after_call`.
    type Passage: Send;

    /// Runs before the verb; an error takes its place.
    async fn before_call(&self, verb: &'static str) -> Result<Self::Passage, LedgerError>;

    /// Runs after the verb, before its caller knows what became of it.
    fn after_call(&self, verb: &'static str, passage: Self::Passage);
}

/// A ledger that calls a hook around each verb.
#[derive(Debug)]
pub struct Intercepted<T, H> {
    /// The ledger.
    pub inner: Arc<T>,
    /// The hook.
    pub hook: H,
}

/// Implements each port by calling the hook before and after the verb. A verb that is missing from `ledger_verbs!` doesn't compile.
macro_rules! intercept {
    ($($port:ident { $($kind:ident $($operation:literal)? fn $verb:ident($($argument:ident: $type:ty),*) -> $output:ty;)* })*) => {
        /// All verbs, named as the hook gets them.
        pub const VERBS: &[&str] = &[$($(concat!("ledger.", stringify!($verb))),*),*];

        $(#[async_trait]
        impl<T: $port, H: Hook> $port for Intercepted<T, H> {
            $(async fn $verb(&self, $($argument: $type),*) -> Result<$output, LedgerError> {
                const VERB: &str = concat!("ledger.", stringify!($verb));
                let passage = self.hook.before_call(VERB).await?;
                let outcome = self.inner.$verb($($argument),*).await;
                self.hook.after_call(VERB, passage);
                outcome
            })*
        })*
    };
}

crate::ledger_verbs!(intercept);

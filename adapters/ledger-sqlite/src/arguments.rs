//! How a verb's arguments get to another thread, and are lent to it there.

use satchel_domain::{
    AttachmentId, CallId, ConversationId, InboxId, LoginId, MessageRef, PartId, ReminderId, Timestamp, TurnId,
};
use satchel_ports::ledger::{AttachmentKey, ClaimMode, ReleaseMode};

/// An argument of a verb.
pub(crate) trait Argument {
    /// What another thread has of it.
    type Owned: Send + 'static;
    /// It, as the verb takes it there.
    type Lent<'a>;

    fn into_owned(self) -> Self::Owned;

    fn lend(owned: &Self::Owned) -> Self::Lent<'_>;
}

impl<T> Argument for &T
where
    T: ToOwned<Owned: Send + 'static> + ?Sized + 'static,
{
    type Owned = T::Owned;
    type Lent<'a> = &'a T;

    fn into_owned(self) -> T::Owned {
        self.to_owned()
    }

    fn lend(owned: &T::Owned) -> &T {
        std::borrow::Borrow::borrow(owned)
    }
}

macro_rules! passed_by_value {
    ($($type:ty),*) => {
        $(impl Argument for $type {
            type Owned = Self;
            type Lent<'a> = Self;

            fn into_owned(self) -> Self {
                self
            }

            fn lend(owned: &Self) -> Self {
                owned.clone()
            }
        })*
    };
}

passed_by_value!(
    u32,
    u64,
    AttachmentId,
    AttachmentKey,
    CallId,
    ClaimMode,
    InboxId,
    LoginId,
    Option<ConversationId>,
    Option<MessageRef>,
    Option<String>,
    Option<Timestamp>,
    PartId,
    ReleaseMode,
    ReminderId,
    Timestamp,
    TurnId
);

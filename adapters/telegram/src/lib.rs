//! Telegram: what people write comes in by polling or a webhook, what Satchel answers goes out through the Bot API.

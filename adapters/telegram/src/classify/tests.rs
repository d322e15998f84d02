//! What the answers that Telegram gives mean.

//! Speech: words as OGG/Opus from a server or a program of one's own, and recordings as words.

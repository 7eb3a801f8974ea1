"""The `log` organization: append-only segments of blocks, a keydir that is derived from them, and group commit."""

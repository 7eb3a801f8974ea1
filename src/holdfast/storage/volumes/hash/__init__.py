"""The `hash` organization of WebBase: buckets of signatures with overflow, read and scanned without an index (B7)."""

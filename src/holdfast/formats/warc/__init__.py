"""WARC 1.0 and 1.1: read (reader, rules, digests) and written (compose, writer)."""

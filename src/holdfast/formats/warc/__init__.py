"""WARC 1.0 and 1.1: framing, rules, digests, and files that every reader reads."""

"""Batches: the record journal, one directory for each month or named crawl (I2, I4).

In: entries, each with a record's attributes and the literal bytes around its payload; the payload is a content in the
store, named by its contentkey. Entries are grouped into zstd frames of about 64 KiB, appended to the batch's current
file, synced, and only then acknowledged. Out: the same entries, by frame.

Guarantees. An appended entry survives kill -9 and power loss. A torn frame is dropped when the journal opens for
writing; `verify` names a frame damaged later, which costs only its own entries. Serial numbers are never reused. A
batch is a directory: copying it backs up its records.

Entries are plain text in Tianwang form, version 2.0: `zstdcat records-000001.tw.zst` shows them.
"""

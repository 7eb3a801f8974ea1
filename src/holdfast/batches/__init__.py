"""Batches: the record journal, one directory for each month or named crawl (I2, I4).

What flows in: entries, each a record's attributes and the literal bytes around its payload; the payload itself is a
content in the store, named by its contentkey. They are gathered into zstd frames of about 64 KiB, appended to the
batch's current file, synced, and only then acknowledged. What flows out: the same entries, by frame.

Guarantees. An appended entry survives kill -9 and power loss. A frame that was cut by a crash is dropped when the
journal opens for writing; a frame that is damaged later is named by `verify` and costs the entries in it, no others.
Serial numbers are given once and never again. A batch is a directory: copying it is a backup of its records.

Entries are plain text in Tianwang form, version 2.0: `zstdcat records-000001.tw.zst` shows them.
"""

"""The `hash` organization of WebBase: buckets of signatures with overflow, read and scanned without an index (B7).

A group of commits changes buckets in memory (`bucket`). New images of their pages (`page`) are durable in the journal
before they are written in place to the `files`; recovery writes them again. The `reader` needs only pages and journal.
`check` reads every block; its repair rebuilds damaged buckets from their sound blocks.
"""

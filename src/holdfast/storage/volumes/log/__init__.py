"""The `log` organization, the default: append-only segments, a keydir derived from them, and group commit.

A commit becomes entries of a `segment`. The `ledger` applies each entry, one thread appends and syncs a group of them,
and the `keydir` gets their changes in one atomic write. Segments are the truth: `recovery` replays what the keydir has
not seen, a reader in another process follows both (`follower`), and `check` compares them and repairs one from the
other. `compaction` copies live entries out of segments with dead ones. `hashed_log` distributes the segments into logs
for ranges of signatures, so that scans are sorted. Acknowledged means synced.
"""

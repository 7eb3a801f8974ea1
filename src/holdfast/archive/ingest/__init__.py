"""Ingest: records from files and exchanges into the archive, and recovery after a crash.

    file ── file_reader ──► drafts, findings ── importer ──┐      large files in processes: reader_process
    request and response ── exchange ──► drafts ───────────┴──► writer ──► intent ──► contents ──► batch ──► catalog

`writer` is the only way in, and owns what additions, recovery and removal share. `intent` makes a crash in the middle
of an addition reversible. `manifest` lists the records of a file, so that it can be exported again exactly.
"""

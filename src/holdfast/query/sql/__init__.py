"""SQL over an archive: captures, links, pages and contents, read-only.

    archive.sql("SELECT host, count(*) FROM captures GROUP BY host").table()

`statement` rejects everything but reads; `child` runs a statement in its own process, over the tables of
`database`; `result` returns the rows as Arrow.
"""

"""How a study runs: captures read in order, gathered into partial results on disk, merged and finished.

scan, index_rows ──► database, tally ──► run: partial result ──► finished result
catalog and index    DuckDB on disk      of one archive          of several
"""

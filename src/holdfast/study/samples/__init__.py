"""Samples (I9): test collections that represent an archive, and that another person can make again.

options, seed ──draw──► chosen captures ──report──► distributions of archive and sample, distances
                              └──────────collection──► WARC or Parquet, list, report, manifest, README
"""

"""Streams beside the readers of WARC files that others make corpora with, and beside bare zstd.

WARC files of a crawl ──► FastWARC, warcio, datatrove: record after record
      └──► archive ──► stream: the same payloads, from contents
                  └──► eight consumers of one stream, or eight streams
the payloads in zstd frames, in memory ──► decompressed, and nothing else: the limit
"""

"""Streams compared with the WARC readers used to build corpora, and with bare zstd.

WARC files of a crawl ──► FastWARC, warcio, datatrove: record after record
      └──► archive ──► stream: the same payloads, from contents
                  └──► eight consumers of one stream, or eight streams
the payloads in zstd frames, in memory ──► decompressed only: the limit
"""

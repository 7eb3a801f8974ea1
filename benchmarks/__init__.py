"""Holdfast beside its peers, measured in one run: `python -m benchmarks NAME`.

    quick        one row of each kind, compared with the figures committed last
    harness      what all of them run in: corpus, child processes, clock, repeats, targets, report, chart
    store        the store beside plain files, WARC writers, SQLite, RocksDB and SeaweedFS
    archive      records in, found and out, beside warcio, FastWARC, cdxj-indexer and pywb
    crawl        one local site, beside Scrapy, wget and wget2
    replay       the server beside pywb
    webstore     volume servers beside network file systems, in the experiments of the Webstore paper (W15)
    webbase      the tables and figures of the WebBase paper (B13)
    query        the index beside bare tantivy
    stream       streams beside FastWARC, warcio, datatrove and zstd

Not part of the installed package; run it in the root of the source tree.
"""

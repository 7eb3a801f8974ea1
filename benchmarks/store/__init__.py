"""The store beside plain files, WARC writers, SQLite, RocksDB and SeaweedFS: named workloads over a corpus."""

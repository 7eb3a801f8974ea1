"""Worker processes of the index: a pool distributes tasks, workers read records and extract, within limits (B12)."""

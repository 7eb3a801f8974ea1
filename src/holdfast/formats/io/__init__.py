"""Files become records: recognized, decoded, and salvaged if they are damaged.

    open     recognizes a stream (sniff), picks source and framing, and returns the records
    source   plain bytes of the file, and where each lies on disk; gzip and zstd decode members
    salvage  framing + source ──► records and findings; head_end and record_block serve it

Linear in time and bounded in memory, whatever the bytes.
"""

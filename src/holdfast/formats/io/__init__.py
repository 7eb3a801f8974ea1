"""Files become records: recognized, decoded, and salvaged if they are damaged.

    open     recognizes a stream (sniff), picks source and framing, and returns the records
    source   plain bytes of the file, and where each lies on disk; gzip and zstd decode members
    salvage  framing + source ──► records and findings; the block of a record is read through record_block

Linear in time and bounded in memory, whatever the bytes.
"""

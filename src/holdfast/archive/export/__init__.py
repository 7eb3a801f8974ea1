"""Records out: as WARC, WACZ, CDX and the other formats, or byte for byte as they were imported."""

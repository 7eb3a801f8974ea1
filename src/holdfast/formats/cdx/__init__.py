"""CDX files: captures as sorted lines, plain, as JSON (CDXJ) and in compressed blocks (ZipNum)."""

"""Rows of a catalog as text files: CDX, CDXJ and ZipNum."""

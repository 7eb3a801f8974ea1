"""WACZ 1.1.1, read and written."""

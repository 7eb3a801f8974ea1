"""The `tree` organization of Webstore: a directory tree of degree 256 with one file per block (W4)."""

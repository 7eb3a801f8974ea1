"""The `tree` organization of Webstore: one file per block, in a directory tree of degree 256 (W4).

A commit is durable as a whole in the journal before the first file changes, and applied again after a crash.
"""

"""Ranks: the link graph of the newest captures, page rank over it, and the files that keep the results (B12)."""

"""Removal for good, and the list of what may not come back (N2)."""

"""Records in: added, imported from files, and recovered after a crash."""

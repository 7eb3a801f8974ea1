"""Parsed responses enter the archive, then the frontier, then the log."""

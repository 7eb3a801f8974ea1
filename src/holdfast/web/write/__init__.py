"""Captures received over HTTP."""

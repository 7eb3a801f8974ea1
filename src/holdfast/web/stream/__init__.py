"""Bulk streams over HTTP, shared by clients of the same snapshot."""

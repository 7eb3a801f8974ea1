"""A batch backed up with its payloads, and restored elsewhere under the same ids (I4)."""

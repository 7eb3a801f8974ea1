"""Extraction: from a stored payload to title, text, language, links, sketch, and the rows of the index (B12)."""

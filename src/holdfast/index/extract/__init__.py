"""From a stored payload to what the index keeps of it: title, text, language, links, sketch, and their rows (B12)."""

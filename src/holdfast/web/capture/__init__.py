"""A capture found by URL and date, and sent: rewritten, raw, or as a download."""

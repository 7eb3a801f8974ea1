"""Ingest: parsed pages go into the archive, then into the frontier, the log and the tally of the crawl."""

"""The processes that look into fetched responses: links, sitemaps, and drafts of records."""

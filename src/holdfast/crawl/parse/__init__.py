"""Parse workers: from fetched responses to links, sitemaps and drafts of records."""

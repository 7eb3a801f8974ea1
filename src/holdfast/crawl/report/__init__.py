"""Reports on crawls: the list, their log and progress, and why a URL was or was not fetched."""

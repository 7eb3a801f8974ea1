"""What is known of crawls: which there are, their log and progress, and why a URL was or was not fetched."""

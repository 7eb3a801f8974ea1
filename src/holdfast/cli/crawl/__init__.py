"""`holdfast crawl`: its options, the plan they make, its run, and the commands that inspect crawls."""

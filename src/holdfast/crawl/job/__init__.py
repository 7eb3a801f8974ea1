"""What a crawl is to do: the job, its TOML file, and the checks of both."""

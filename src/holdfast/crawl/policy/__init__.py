"""Which URLs are queued and fetched: scope, traps, robots.txt, private networks, limits."""

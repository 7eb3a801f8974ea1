"""When a page is visited again, and when it expires."""

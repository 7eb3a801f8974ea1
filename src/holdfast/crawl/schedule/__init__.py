"""When a host that failed is tried again, when a page is visited again, and when it expires."""

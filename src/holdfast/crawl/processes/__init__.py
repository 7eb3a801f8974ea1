"""The processes of a crawl, and the messages between them."""

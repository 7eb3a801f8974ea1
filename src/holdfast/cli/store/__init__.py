"""Commands about the store: contents and volumes."""

"""For whoever runs the server: health, metrics, crawls and volumes."""

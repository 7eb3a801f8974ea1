"""Commands about an archive as a whole: its state and settings, its batches, its index."""

"""Authorization: tokens for reading and writing, and access rules."""

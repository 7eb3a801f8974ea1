"""A volume on another machine: client, connections, and retries of commits (W11, W12)."""

"""A volume on another machine: the client of a volume server (W11, W12)."""

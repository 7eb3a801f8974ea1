"""The node protocol: connections between nodes, the messages on them, and how requests are answered (H3)."""

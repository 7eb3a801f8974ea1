"""Removal from all nodes (N2): the log of removals, and what a node does about each of its entries."""

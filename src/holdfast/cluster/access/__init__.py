"""The same answers from any node (H8): `routes` says which node serves a URL.

The node process writes the table of routes into its directory; its web workers follow it.
"""

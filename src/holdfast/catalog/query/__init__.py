"""Queries of the catalog in the grammar of CDX servers: parsed, filtered, collapsed, rendered."""

"""Batch updates and the policy that keeps only the latest capture (B8, B15)."""

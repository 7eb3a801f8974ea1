"""Commands about captures: `import`, `export`, `stream`, `get`, `cdx`, `diff` and `rm`."""

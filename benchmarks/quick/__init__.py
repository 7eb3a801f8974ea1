"""One row of each kind, beside its peer and beside the figures committed last: `make bench-quick`."""

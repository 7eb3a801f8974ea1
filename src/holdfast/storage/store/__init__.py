"""Many volumes as one store: where a content goes, whether it is there already, and how it is found again."""

"""Who may read and write: tokens and access rules."""

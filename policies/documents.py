"""Documents: files that are read as they were meant, and a set that can be synced."""

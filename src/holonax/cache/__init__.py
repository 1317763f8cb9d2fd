"""What was compiled, kept in a folder of the user's for the next process: docs/cache.md."""

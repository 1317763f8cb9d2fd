"""The command `holonax`."""

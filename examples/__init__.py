"""Programs that show what holonax does: run them with `make`."""

"""Speed of holonax against hand-written code and against other libraries: `python -m benchmarks`."""

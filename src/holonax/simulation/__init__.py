"""Ensembles, in parts: a checked plan, chunks of paths, their steps, what is recorded of them, and the run.

`simulate` puts the parts together.  The driver of chunks serves the studies as well.
"""

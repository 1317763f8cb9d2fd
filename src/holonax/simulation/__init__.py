"""Ensembles: what was asked, chunks of paths, what is recorded, the run."""

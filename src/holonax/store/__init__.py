"""What keeps results on disk: whole files, checked records, arrays in Zarr's format, a lock.

Nothing here knows of systems and steps.  Runs, samples and studies are kept by the modules that make them.
"""

"""Files for other programs, written from plain arrays: trajectories of beads as H5MD and GSD."""

"""Densities on manifolds, sampled by chains of constrained Langevin dynamics."""

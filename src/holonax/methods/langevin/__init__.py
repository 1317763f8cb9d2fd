"""The constrained Langevin equation: splittings and their Metropolis test."""

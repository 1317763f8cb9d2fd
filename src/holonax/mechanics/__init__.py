"""Systems on T*S: their functions, starts, projections, noise, and the equations without multipliers."""

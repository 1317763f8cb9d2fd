"""How a chunk of paths runs.  A new engine is a module here with `begin` and `advance`, and its name in `ENGINES`."""

from holonax.engines import xla

ENGINES = {"xla": xla}

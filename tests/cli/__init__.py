"""A package, because pytest knows modules by their names, and there is a `conftest` above this one."""

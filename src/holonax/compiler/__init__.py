"""From the traced step of a path to a program of lanes, for the engines."""

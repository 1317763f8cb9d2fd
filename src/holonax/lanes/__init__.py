"""A small partial evaluator: the traced step of one path as a flat program of lane-wide numbers."""

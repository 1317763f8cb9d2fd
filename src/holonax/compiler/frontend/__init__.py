"""From the equations of a traced program to the graph."""

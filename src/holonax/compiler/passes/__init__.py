"""From the graph to an order of operations and places in memory."""

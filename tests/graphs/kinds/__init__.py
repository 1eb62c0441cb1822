"""Adds nodes to a random graph: a page of functions for each family; each adds a node, or some that belong together, to the
graph it is given, on tensors that it draws there."""

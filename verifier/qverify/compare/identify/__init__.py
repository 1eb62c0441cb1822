"""Finds the arithmetic of a side, op by op, from what it recorded."""

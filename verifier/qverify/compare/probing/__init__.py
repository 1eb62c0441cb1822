"""Chooses the probes by which the arithmetic of a board is learned, and says where it does not hold."""

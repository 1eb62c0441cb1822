"""Learns the arithmetic of a board by experiment."""

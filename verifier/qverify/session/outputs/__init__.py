"""Compares what a device's application made of a network's outputs with what it should have made."""

"""A board behind its serial console."""

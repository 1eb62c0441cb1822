"""Kernels and sums computed otherwise than ours, of which hypotheses are made: other formats, orders, functions, places."""

"""Kernels and sums that are computed differently than by our runtime (in other formats, orders or functions, or from
other places). Hypotheses use them."""

"""The parts of the page rknn: fused nodes, steps of weights, constant channels."""

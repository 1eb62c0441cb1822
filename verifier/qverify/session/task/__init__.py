"""Task numbers: how well float model, reference, simulator and board perform the network's own task on labelled frames,
such as top-1 accuracy. They never change a verdict."""

"""Task numbers: what float model, reference, simulator and board are worth at the network's own task, over labelled frames.
They never change a verdict."""

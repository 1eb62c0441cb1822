"""From a network's final outputs to what the device's application made of them (OUTPUTS.md)."""

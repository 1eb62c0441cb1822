"""Triage, from the float ONNX up to the board: the gate that fails, the cost of each tensor's quantization, and the
next step."""

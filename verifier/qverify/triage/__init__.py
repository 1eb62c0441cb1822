"""Up the ladder from the float ONNX to the board: the rung that breaks, what each tensor's quantization costs, what to do next."""

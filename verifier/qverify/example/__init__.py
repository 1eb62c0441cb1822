"""The packaged digit classifier: float and quantized ONNX, and one image of each digit (scripts/train_example makes them)."""

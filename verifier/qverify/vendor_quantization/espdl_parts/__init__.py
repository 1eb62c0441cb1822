"""Parts of the page espdl: how the file is read, how it stores weights, how its nodes are written as an ONNX."""

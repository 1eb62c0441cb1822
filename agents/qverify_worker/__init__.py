"""The agent for runtimes that have Python bindings (onnxruntime, LiteRT): the board's end of PROTOCOL.md in standard Python and numpy.

It is packed into one file and pushed to the board; it imports nothing of qverify's other packages."""

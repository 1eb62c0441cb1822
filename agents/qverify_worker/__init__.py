"""The agent for runtimes with Python bindings (onnxruntime, LiteRT): the board's end of PROTOCOL.md.

It is packed into one file and copied to the board. It needs only the standard library, numpy and the runtime's library,
and imports nothing of qverify's other packages."""

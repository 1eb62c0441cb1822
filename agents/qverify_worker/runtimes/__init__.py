"""One file a runtime: the board's Python library that opens a model and runs it.

A page has NAME, `version()`, which raises ImportError where the library is missing, `features(settings)`, and `open_model(data, settings)`, which returns a
Model (model.py)."""

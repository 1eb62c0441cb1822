"""One module for each runtime, that is, for each Python library of the board that opens a model and runs it.

A module defines NAME, `version()`, which raises ImportError if the library is missing, `features(settings)`, and
`open_model(data, settings)`, which returns a Model (model.py)."""

"""Captures: everything that a run recorded, in a folder on disk (CAPTURE.md)."""

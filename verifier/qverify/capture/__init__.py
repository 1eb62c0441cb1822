"""Captures: everything that a run recorded, on disk (CAPTURE.md)."""

"""Everything a run saw, at rest (CAPTURE.md)."""

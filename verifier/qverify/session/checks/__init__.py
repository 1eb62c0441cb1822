"""--check: further runs of the board that must give the bytes of the first."""

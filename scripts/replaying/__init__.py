"""The recorded corpus of scripts/replay: models and captures, and what the program made of them."""

"""Builds the site and checks the documents against the code: repository pages, references, diagrams, shown output."""

"""What makes the site and holds the documents to the code: pages of the repository, references, diagrams, shown output."""

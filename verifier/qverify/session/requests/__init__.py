"""From the values that were given to the requests of the jobs. Nothing runs here; what contradicts itself is refused."""

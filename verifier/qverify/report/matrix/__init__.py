"""Many runs beside each other: what each gave, the cells that they fill, and what changed from cell to cell."""

"""What rknn-toolkit2 does with constants."""

"""Small float networks of many families, and the ways that tools quantize them."""

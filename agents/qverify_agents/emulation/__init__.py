"""Complete boards under QEMU: an image made from distribution packages, and machines that boot it."""

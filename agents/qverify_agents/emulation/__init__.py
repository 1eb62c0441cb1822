"""Full boards under QEMU: an image out of distribution packages, and machines that boot it."""

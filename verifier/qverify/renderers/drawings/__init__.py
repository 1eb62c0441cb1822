"""Figures of shapes, made once and written as SVG or PNG: the same drawing on the page and in the files of --plots."""

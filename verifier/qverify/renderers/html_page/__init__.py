"""Renders a report as one self-contained HTML file. It makes no request, and is readable without scripts and styles."""

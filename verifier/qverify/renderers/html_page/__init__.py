"""The report as one HTML file that needs nothing else: no request, and without scripts or styles it still reads in order."""

"""Pages that tell of a result: plain numbers, text and figures in, one HTML file out."""

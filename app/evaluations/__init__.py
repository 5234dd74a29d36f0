"""Golden sets, and evaluations of search settings with them: figures, confidence intervals and comparisons."""

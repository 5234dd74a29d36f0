"""``carrel evaluate``: datasets, corpus upload, searches, measures, confidence intervals, and the report."""

"""What ``carrel evaluate`` is made of: sets, uploading, asking, measures, intervals, and the report."""

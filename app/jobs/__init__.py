"""The job queue, and the rule for retries."""

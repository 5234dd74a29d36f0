"""The job queue, and the decision about retries."""

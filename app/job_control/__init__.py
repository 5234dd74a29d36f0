"""Jobs of the queue as people see them: list, reasons, and retry of failed jobs."""

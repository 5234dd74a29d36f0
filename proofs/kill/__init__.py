"""Kill API, workers and Postgres in every stage of ingestion, while a checker searches (``make prove NAME=kill``)."""

"""``make kill-test``: kill -9 of API, workers and Postgres in every stage of ingestion, and a checker that searches."""

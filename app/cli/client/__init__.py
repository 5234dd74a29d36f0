"""Commands that talk to a running service over HTTP, as anybody's program would."""

"""The audit: who did what, when, and from where; written with the change itself, and never changed."""

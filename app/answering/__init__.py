"""Answers: a chat model answers a question from the results of a search, with citations."""

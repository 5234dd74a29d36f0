"""Answers: what a search finds, written up by a chat model, and the sources that it rests on."""

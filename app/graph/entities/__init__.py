"""Entities of a knowledge base: lists, single entities, graphs of documents, and corrections by people."""

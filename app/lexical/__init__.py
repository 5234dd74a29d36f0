"""Lexical analysis: from text to terms (``analyzer``), and from terms to ids, keys and BM25 weights (``weights``)."""

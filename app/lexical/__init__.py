"""The lexical tool room: text to terms (analyzer), terms to ids, keys and BM25 weights (weights)."""

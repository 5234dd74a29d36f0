"""The lexical tool room: text to terms (analyser), terms to ids, keys and BM25 weights (weights)."""

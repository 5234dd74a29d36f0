"""The dense and the lexical retriever: targets, terms, execution and ranking."""

"""Parser of rich text files (RTF 1.9): tokens, code pages, paragraphs, tables and fields."""

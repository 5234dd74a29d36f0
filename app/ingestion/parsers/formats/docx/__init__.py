"""The parser of Word documents (DOCX)."""

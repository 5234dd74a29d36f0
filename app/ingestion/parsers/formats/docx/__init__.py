"""Parser of Word files (DOCX)."""

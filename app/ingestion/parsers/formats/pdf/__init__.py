"""Parser of PDF files."""

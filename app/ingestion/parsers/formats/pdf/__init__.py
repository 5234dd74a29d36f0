"""The parser of PDF files."""

"""Tools that parsers share: archives, decoding, tables, images and OCR."""

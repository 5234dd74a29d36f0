"""Export of knowledge bases to archives, and their import into another service without parsing or embedding again."""

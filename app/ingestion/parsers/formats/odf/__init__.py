"""Parsers of OpenDocument files (ODF 1.3): texts, presentations and spreadsheets, packed or as one XML file."""

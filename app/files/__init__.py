"""Stored files, their attachments to knowledge bases, and batches of attachments."""

"""The HTTP APIs. Each one translates its protocol to calls of the same services."""

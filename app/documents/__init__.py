"""Documents: uploads, their contents, changes and deletion. New packages follow the structure of this package."""

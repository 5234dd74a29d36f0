"""Tables of the database, one class for each."""

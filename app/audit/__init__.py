"""Audit log: actions with actor, time and origin, written in the transaction of the change and never modified."""

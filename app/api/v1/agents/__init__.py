"""Routes of agent bindings."""

"""Authentication: API keys, tokens of an identity provider, and the throttle of failed sign-ins."""

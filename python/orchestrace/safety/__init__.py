"""Where untrusted content went, and where it could have been stopped."""

"""Object storage: addresses, listings, and copies of objects on disk; nothing here knows what is in them."""

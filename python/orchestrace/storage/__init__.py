"""Object storage: addresses, listings, and copies of objects on disk, whatever their content."""

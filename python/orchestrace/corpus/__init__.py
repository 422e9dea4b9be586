"""Recordings in memory: reading, scanning, tables, rewards, units."""

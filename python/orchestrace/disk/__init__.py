"""Corpora on disk: ingest, manifest, shards, and verbs within a budget of memory."""

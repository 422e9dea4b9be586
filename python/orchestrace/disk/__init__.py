"""Corpora on disk: ingest, manifest, shards, verbs within a budget of memory, views for SQL."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .sql_views import sql_views as sql_views


load_lazily(__name__)

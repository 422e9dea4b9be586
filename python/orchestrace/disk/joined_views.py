"""Views in SQL over several tables of a corpus, in words that DuckDB and Polars share."""

from typing import Final

_OF_TRACES: Final = ("trace_id", "task_id", "importer")

_JOINED: Final = {
    "named_edges": """
SELECT t."trace_id", e."trace", e."type", e."src", e."dst",
  a."id" AS "src_id", a."agent" AS "src_agent", b."id" AS "dst_id", b."agent" AS "dst_agent"
FROM "edges" AS e
JOIN "traces" AS t ON e."trace" = t."trace"
JOIN "events" AS a ON e."trace" = a."trace" AND e."src" = a."seq"
JOIN "events" AS b ON e."trace" = b."trace" AND e."dst" = b."seq\"""",
    "rewards": """
SELECT t."trace_id", t."task_id", m."trace", m."name" AS "channel", m."value"
FROM "measures" AS m
JOIN "traces" AS t ON m."trace" = t."trace"
WHERE m."kind" = 'reward'""",
    "failed_traces": """
SELECT t."trace", t."trace_id", t."task_id", t."group_id", t."importer", t."n_events", t."n_agents",
  m."value" AS "reward"
FROM "traces" AS t
JOIN "measures" AS m ON t."trace" = m."trace"
WHERE m."kind" = 'reward' AND m."name" = 'team' AND m."value" < 1.0""",
    "agent_usage": """
SELECT t."trace_id", u."trace", u."agent", u."n_events", u."tokens", u."cost_usd"
FROM (
  SELECT e."trace", e."agent", COUNT(*) AS "n_events",
    CASE WHEN COUNT(e."tokens") > 0 THEN CAST(SUM(e."tokens") AS BIGINT) END AS "tokens",
    CASE WHEN COUNT(e."cost_usd") > 0 THEN SUM(e."cost_usd") END AS "cost_usd"
  FROM "events" AS e
  GROUP BY e."trace", e."agent"
) AS u
JOIN "traces" AS t ON u."trace" = t."trace\"""",
}
"""Views of several tables. A sum of nothing is null: engines differ there."""


def joined_views(columns: list[str]) -> dict[str, str]:
    """The query of each view by its name; `columns` are those of events.

    Events have the names of their traces, and a lifted column of such a name gives way.
    """
    named = [f"t.{identifier(name)}" for name in _OF_TRACES]
    named += [f"e.{identifier(name)}" for name in columns if name not in _OF_TRACES]
    events = f'SELECT {", ".join(named)}\nFROM "events" AS e\nJOIN "traces" AS t ON e."trace" = t."trace"'
    return {"named_events": events, **_JOINED}


def identifier(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'

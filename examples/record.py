"""Agent runs as native traces, one JSON line for each finished run. Nothing but the standard library."""

import json
import os
import time
import uuid


class Run:
    def __init__(self, path, task):
        self.path, self.begun, self.events, self.edges = path, time.monotonic(), [], []
        self.ids = {"trace_id": uuid.uuid4().hex, "task_id": task}

    def add(self, type, agent, after=(), edge="causal", **fields):
        """Note what has just happened and which events it waited for. Returns its id."""
        event = {"id": f"e{len(self.events)}", "t": time.monotonic() - self.begun, "type": type}
        self.events.append(event | {"agent": agent} | fields)
        self.edges += [{"src": before, "dst": event["id"], "type": edge} for before in after]
        return event["id"]

    def finish(self, **rewards):
        """Append the run. It begins with a line end too, so that half a line of a crash spoils no other."""
        tokens = sum(event.get("tokens_in", 0) + event.get("tokens_out", 0) for event in self.events)
        costs = {"tokens": tokens, "wall_clock_s": time.monotonic() - self.begun}
        run = self.ids | {"events": self.events, "edges": self.edges, "rewards": rewards, "costs": costs}
        with open(self.path, "ab", buffering=0) as file:  # one write, on disk when this returns
            file.write(b"\n" + json.dumps(run, allow_nan=False).encode() + b"\n")
            os.fsync(file.fileno())

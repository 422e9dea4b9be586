"""The commands of `orchestrace`, by the modules that define them: what is listed without loading any."""

from typing import Final

COMMANDS: Final[dict[str, dict[str, str]]] = {
    "codes": {
        "codes": "Explain codes: rejects, findings, reasons, ignored records.",
    },
    "costs": {
        "costs": "Add up tokens and dollars, recorded or by prices.",
        "agents": "List sub-agents: cost, time, whether the answer was used.",
    },
    "credit": {
        "credit": "Divide the reward among units.",
        "compare": "Compare credit methods: their cost and how far they agree.",
        "explain": "Show what made the credit of one unit.",
        "methods": "List the credit methods.",
    },
    "run_task": {
        "plan": "Divide a verb on a corpus on disk into tasks.",
        "run-task": "Run tasks of a plan; parts that are there stay.",
        "reduce": "Join the parts of a plan to one table.",
    },
    "export": {
        "export": "Write recordings for viewers, process mining and trainers.",
    },
    "mapping": {
        "mapping": "Check a mapping file against its records.",
    },
    "metrics": {
        "metrics": "Measure efficiency, collaboration, overhead and safety.",
        "rewards": "Compute rewards by rules: what each run or unit is paid.",
        "decisions": "List decisions: what was known, done, and gained.",
        "taint": "Follow untrusted content: what it reached, where to stop it.",
        "survey": "Recompute the statistics of the survey.",
    },
    "ingest": {
        "demo": "Read and credit the sample corpus; write tables and a page.",
        "validate": "List rejected records and why; exit with 1 if there are any.",
        "story": "Show what is worth knowing first, on one screen.",
        "ingest": "Read recordings of any size into a corpus on disk, or resume.",
        "quarantined": "Write rejected records to a file, where you can repair them.",
        "report": "Summarize recordings: sizes, origins, measures, what is odd.",
        "importers": "List the formats that can be read.",
        "generate": "Write a seeded corpus of valid recordings.",
    },
    "replay": {
        "replay": "Show how runs would have ended with something changed.",
    },
    "stopping": {
        "stopping": "Find where runs could have stopped, and what that pays.",
    },
    "study": {
        "study": "Measure credit methods on corpora whose truth is known.",
    },
    "view": {
        "view": "Write one HTML page of runs that opens offline in a browser.",
    },
}
"""Names and summaries; a summary is the first line of a command's docstring, or the help of a group."""

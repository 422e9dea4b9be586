"""One name of an option means one thing: it has one default in every verb."""

import inspect
from collections import defaultdict

import pytest

from orchestrace.base.verbs import all_verbs

ONE = ("n_boot", "folds", "resume", "seed", "missing", "carry", "program_order", "threads", "progress")
"""Options with one default wherever they have any. `threads` of a plan are those of each worker."""
OF_THEIR_OWN = {("distributed.run", "threads")}


@pytest.mark.parametrize("name", ONE)
def test_an_option_has_one_default(name: str) -> None:
    defaults = defaultdict(list)
    for verb in all_verbs():
        option = inspect.signature(verb.function).parameters.get(name)
        if option and option.default is not option.empty and (verb.name, name) not in OF_THEIR_OWN:
            defaults[option.default].append(verb.name)
    assert len(defaults) == 1, dict(defaults)

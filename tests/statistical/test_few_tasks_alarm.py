"""How often detectors alarm on honest teams with the fewest runs that may alarm: 5 tasks of 4 runs."""

import pytest
from scipy import stats

import orchestrace as ot

CORPORA = 100
#: By how far calls vary: the share of corpora of docs/gaming.md with an alarm, and with one but tool_spam.
PUBLISHED = {0.2: (0.095, 0.03), 0.8: (0.335, 0.125)}


@pytest.mark.parametrize("spread", PUBLISHED)
def test_honest_teams_of_five_tasks_alarm_as_often_as_the_page_says(spread: float) -> None:
    anywhere = elsewhere = 0
    for seed in range(1000, 1000 + CORPORA):
        corpus, rewards, _ = ot.synthetic.gamed(
            None, tasks=5, runs_per_task=4, length_spread=spread, seed=seed
        )
        table = ot.rewards.detect_hacking(corpus, rewards, n_boot=400)
        named = set(table.filter("alarm")["detector"])
        anywhere += bool(named)
        elsewhere += bool(named - {"tool_spam"})
    for count, rate in zip((anywhere, elsewhere), PUBLISHED[spread], strict=True):
        low, high = stats.binom.ppf([0.0005, 0.9995], CORPORA, rate)
        assert low <= count <= high, (count, rate)


def test_fewer_tasks_than_five_never_alarm() -> None:
    corpus, rewards, _ = ot.synthetic.gamed("tool_spam", tasks=4, runs_per_task=8, seed=0)
    table = ot.rewards.detect_hacking(corpus, rewards, n_boot=200)
    spam = table.filter(detector="tool_spam").drop_nulls("value")
    assert spam.height and set(spam["reason"]) == {"support.absent"} and not table["alarm"].any()

"""Solutions of cooperative games in plain Python, from their definitions: sums over sets or over orders.

A game of n players is the list of its 2^n values; bit p of an index says whether player p is in.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product

Game = Sequence[float]
Value = list[float]
Link = tuple[int, int]
Tree = int | tuple["Tree", ...]
"""A player, or a union of unions and players."""


def players_of(game: Game) -> int:
    n = len(game).bit_length() - 1
    assert len(game) == 1 << n
    return n


def index(players: Sequence[int]) -> int:
    return sum(1 << p for p in players)


def subsets(players: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for size in range(len(players) + 1):
        yield from combinations(players, size)


def weight(size: int, n: int) -> float:
    """Share of the orders of n in which a given one follows exactly a given set."""
    return float(Fraction(math.factorial(size) * math.factorial(n - size - 1), math.factorial(n)))


# --- games ---------------------------------------------------------------------------------------------


def table(n: int, worth: Callable[[frozenset[int]], float]) -> list[float]:
    return [worth(frozenset(p for p in range(n) if s >> p & 1)) for s in range(1 << n)]


def noisy_or(*chances: float) -> list[float]:
    return table(len(chances), lambda s: 1 - math.prod(1 - chances[p] for p in s))


def glove() -> list[float]:
    """One left glove, two right ones."""
    return table(3, lambda s: float(0 in s and len(s) > 1))


def majority(n: int) -> list[float]:
    return table(n, lambda s: float(2 * len(s) > n))


def unanimity(n: int, carrier: set[int]) -> list[float]:
    return table(n, lambda s: float(carrier <= s))


# --- values by sets --------------------------------------------------------------------------------------


def shapley(game: Game) -> Value:
    n = players_of(game)
    value = []
    for i in range(n):
        others = [p for p in range(n) if p != i]
        gains = (weight(len(s), n) * (game[index(s) | 1 << i] - game[index(s)]) for s in subsets(others))
        value.append(math.fsum(gains))
    return value


def banzhaf(game: Game) -> Value:
    n = players_of(game)
    value = []
    for i in range(n):
        others = [p for p in range(n) if p != i]
        gains = (game[index(s) | 1 << i] - game[index(s)] for s in subsets(others))
        value.append(math.fsum(gains) / 2 ** (n - 1))
    return value


def normalized_banzhaf(game: Game) -> Value:
    raw = banzhaf(game)
    return [(game[-1] - game[0]) * b / math.fsum(raw) for b in raw]


def sharp(game: Game) -> Value:
    """What is lost when one of all is masked: the difference reward at the grand coalition."""
    return [game[-1] - game[(len(game) - 1) & ~(1 << i)] for i in range(players_of(game))]


def owen(game: Game, unions: Sequence[Sequence[int]]) -> Value:
    """Equation of 5.7: sets of other unions, then sets within the own one."""
    n, m = players_of(game), len(unions)
    assert sorted(p for union in unions for p in union) == list(range(n))
    value = [0.0] * n
    for j, union in enumerate(unions):
        for h in subsets([k for k in range(m) if k != j]):
            before = index([p for k in h for p in unions[k]])
            for i in union:
                for t in subsets([p for p in union if p != i]):
                    there = before | index(t)
                    share = weight(len(h), m) * weight(len(t), len(union))
                    value[i] += share * (game[there | 1 << i] - game[there])
    return value


def quotient(game: Game, unions: Sequence[Sequence[int]]) -> list[float]:
    """The game that unions play as one."""
    return table(len(unions), lambda s: game[index([p for k in s for p in unions[k]])])


def myerson(game: Game, links: Sequence[Link]) -> Value:
    return shapley(restricted(game, links))


def restricted(game: Game, links: Sequence[Link]) -> list[float]:
    """What the parts of a coalition that links join earn, each for itself."""
    n = players_of(game)

    def worth(s: frozenset[int]) -> float:
        return math.fsum(game[index(sorted(part))] - game[0] for part in components(s, links))

    return table(n, worth)


def components(players: frozenset[int], links: Sequence[Link]) -> list[set[int]]:
    parts = [{p} for p in sorted(players)]
    for a, b in links:
        if a in players and b in players:
            ours = [part for part in parts if a in part or b in part]
            parts = [part for part in parts if part not in ours] + [set().union(*ours)]
    return parts


def permission(game: Game, parents: Sequence[int | None]) -> Value:
    """Only those whose whole chain of spawners is there take part."""
    n = players_of(game)

    def allowed(s: frozenset[int]) -> list[int]:
        return [p for p in s if all(q in s for q in chain(p, parents))]

    return shapley(table(n, lambda s: game[index(allowed(s))]))


def chain(player: int, parents: Sequence[int | None]) -> list[int]:
    above = []
    parent = parents[player]
    while parent is not None:
        above.append(parent)
        parent = parents[parent]
    return above


# --- values by orders ------------------------------------------------------------------------------------


def gains(game: Game, order: Sequence[int]) -> Value:
    """What each adds to those before it."""
    value, before = [0.0] * len(order), 0
    for p in order:
        value[p] = game[before | 1 << p] - game[before]
        before |= 1 << p
    return value


def mean_of_orders(game: Game, orders: Sequence[Sequence[int]]) -> Value:
    found = [gains(game, order) for order in orders]
    return [math.fsum(value) / len(orders) for value in zip(*found, strict=True)]


def extensions(parents: Sequence[int | None]) -> list[tuple[int, ...]]:
    """Orders in which nobody comes before who spawned it."""
    everyone = permutations(range(len(parents)))
    return [
        order
        for order in everyone
        if all(q is None or order.index(q) < order.index(p) for p, q in enumerate(parents))
    ]


def precedence_shapley(game: Game, parents: Sequence[int | None]) -> Value:
    return mean_of_orders(game, extensions(parents))


def nested_orders(tree: Tree) -> list[tuple[int, ...]]:
    """Orders that keep every union together."""
    if isinstance(tree, int):
        return [(tree,)]
    inner = [nested_orders(child) for child in tree]
    return [
        tuple(p for part in parts for p in part) for order in permutations(inner) for parts in product(*order)
    ]


def winter(game: Game, tree: Tree) -> Value:
    """Levels of unions in unions: all orders that keep each of them together are alike."""
    return mean_of_orders(game, nested_orders(tree))


# --- kernel -----------------------------------------------------------------------------------------------


@cache
def kernel_matrix(n: int) -> list[list[float]]:
    """E[z z'] over the subsets by their weight, summed up one by one."""
    mass = {s: (n - 1) / (math.comb(n, len(s)) * len(s) * (n - len(s))) for s in inner_subsets(n)}
    total = math.fsum(mass.values())
    return [
        [math.fsum(m for s, m in mass.items() if i in s and j in s) / total for j in range(n)]
        for i in range(n)
    ]


def inner_subsets(n: int) -> list[tuple[int, ...]]:
    return [s for s in subsets(range(n)) if 0 < len(s) < n]


def kernel_shap(game: Game) -> Value:
    """Weighted least squares over all subsets under Σφ = v(N) - v(∅), by its Karush-Kuhn-Tucker system."""
    import numpy as np

    n = players_of(game)
    if n == 1:
        return [game[1] - game[0]]
    sets = inner_subsets(n)
    design = np.array([[float(p in s) for p in range(n)] for s in sets])
    root = np.array([(n - 1) / (math.comb(n, len(s)) * len(s) * (n - len(s))) for s in sets])
    gained = np.array([game[index(s)] - game[0] for s in sets])
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = design.T @ (root[:, None] * design)
    system[:n, n] = system[n, :n] = 1.0
    right = np.append(design.T @ (root * gained), game[-1] - game[0])
    return [float(x) for x in np.linalg.solve(system, right)[:n]]

"""The plot of docs/stopping-answers.md: the quality that rules of stopping reach, over what runs cost.

python benches/python/stopping_plot.py --svg docs/pictures/stopping-answers.svg
"""

import argparse

import orchestrace as ot

PRICES = [0.0, 0.01, 0.02, 0.04, 0.06, 0.09, 0.12, 0.18, 0.25, 0.4]
RULES = ["fixed", "threshold", "lsm", "oracle"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--svg", help="file for the plot")
    options = parser.parse_args()
    epochs, _ = ot.synthetic.stops(runs=4000, seed=0)
    curve = ot.stopping.frontier(epochs, RULES, prices=PRICES, n_boot=20)
    for name in RULES[1:]:
        print(name, "over fixed:", ot.stopping.frontier_area(curve, name, "fixed"))
    if options.svg:
        chart = ot.plot.stopping(curve, title="Quality over cost, planted runs")
        ot.plot.save(chart, options.svg, overwrite=True)


if __name__ == "__main__":
    main()

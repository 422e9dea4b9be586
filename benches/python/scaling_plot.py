"""The plot of docs/replay-schedule.md: speed-up against slots, with the bounds of Graham and Brent.

python benches/python/scaling_plot.py --svg docs/pictures/replay-schedule.svg
"""

import argparse

import orchestrace as ot

SLOTS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--svg", help="file for the plot")
    options = parser.parse_args()
    curve = ot.schedules.scaling_curve(ot.generate(traces=200, seed=0), slots=SLOTS).filter(unit="seconds")
    print(ot.schedules.fit_scaling(curve))
    if options.svg:
        chart = ot.plot.scaling(curve, title="200 generated runs")
        ot.plot.save(chart, options.svg, overwrite=True)


if __name__ == "__main__":
    main()

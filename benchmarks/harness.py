"""How everything here is measured: named variants that take turns within each round, so that a change of the machine's
load meets all of them; medians over the rounds, and for a comparison the median of the rounds' own ratios.

How the kernel places processes on cores is settled early and stays: of two equal sets of processes one was twice as
fast as the other for as long as both lived (measured). So a round may be given a setting, which starts them anew.

A benchmark makes its comparisons, calls `run`, and exits with what that returns: 1 if a target is missed.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

SCHEMA_VERSION: Final = 1
"""Of the JSON. A later version may add keys."""

Variant = Callable[[], Mapping[str, float]]
"""Measures once; figures by name. All calls of a variant give the same names."""


@dataclass(frozen=True)
class Target:
    """What a variant has to reach.

    Args:
        variant: whose figure.
        figure: its name.
        limit: in the figure's unit; without one if `against` is given.
        against: the yardstick: the limit is for the ratio to the same figure of this variant in the same round.
        at_least: whether more is better.
    """

    variant: str
    figure: str
    limit: float
    against: str = ""
    at_least: bool = False


@dataclass(frozen=True)
class Comparison:
    """Variants that are measured side by side, and what is expected of them."""

    title: str
    variants: Mapping[str, Variant]
    targets: Sequence[Target] = ()


Setting = Callable[[], AbstractContextManager[Sequence[Comparison]]]
"""What a round is measured in. Each gives the same comparisons."""


@dataclass(frozen=True)
class Outcome:
    """What was measured: for each variant and figure one value per round, and the load average before each round."""

    comparison: Comparison
    values: dict[str, dict[str, list[float]]]
    load: list[float]

    def reached(self, target: Target) -> float:
        """The median of a target's figure, or of its ratio."""
        values = self.values[target.variant][target.figure]
        if not target.against:
            return statistics.median(values)
        yardstick = self.values[target.against][target.figure]
        return statistics.median(ours / theirs for ours, theirs in zip(values, yardstick, strict=True))

    def is_met(self, target: Target) -> bool:
        """Whether a target is met."""
        reached = self.reached(target)
        return reached >= target.limit if target.at_least else reached <= target.limit


def spread(milliseconds: Sequence[float]) -> dict[str, float]:
    """The median and the 99th percentile of single times."""
    p99 = statistics.quantiles(milliseconds, n=100, method="inclusive")[98]
    return {"p50 ms": statistics.median(milliseconds), "p99 ms": p99}


def measure(setting: Setting, rounds: int) -> list[Outcome]:
    """All rounds. Each begins with another variant, so that nobody always comes first."""
    outcomes: list[Outcome] = []
    for number in range(rounds):
        with setting() as comparisons:
            outcomes = outcomes or [Outcome(one, {name: {} for name in one.variants}, []) for one in comparisons]
            for comparison, outcome in zip(comparisons, outcomes, strict=True):
                outcome.load.append(round(os.getloadavg()[0], 2))
                names = list(comparison.variants)
                first = number % len(names)
                for name in names[first:] + names[:first]:
                    for figure, value in comparison.variants[name]().items():
                        outcome.values[name].setdefault(figure, []).append(value)
    return outcomes


def table(outcome: Outcome) -> str:
    """An outcome for people: median, least and largest of the rounds."""
    load = f"load {min(outcome.load):g} to {max(outcome.load):g} on {os.cpu_count()} cores"
    lines = [f"{outcome.comparison.title} ({len(outcome.load)} rounds, {load})"]
    for name, figures in outcome.values.items():
        for figure, values in figures.items():
            span = f"[{_number(min(values))} .. {_number(max(values))}]" if len(values) > 1 else ""
            lines.append(f"  {name:<36}{figure:<16}{_number(statistics.median(values)):>10}  {span}".rstrip())
    for target in outcome.comparison.targets:
        what = f"{target.figure}, times that of {target.against}" if target.against else target.figure
        limit = f"at {'least' if target.at_least else 'most'} {target.limit:g}"
        verdict = "ok" if outcome.is_met(target) else "MISSED"
        lines.append(f"  {verdict:<7}{target.variant}, {what}: {outcome.reached(target):.3g}, {limit}")
    return "\n".join(lines)


def document(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Outcomes for programs."""
    return {
        "schema_version": SCHEMA_VERSION,
        "cores": os.cpu_count(),
        "comparisons": [
            {
                "title": outcome.comparison.title,
                "load": outcome.load,
                "values": outcome.values,
                "targets": [
                    {**vars(target), "reached": outcome.reached(target), "met": outcome.is_met(target)}
                    for target in outcome.comparison.targets
                ],
            }
            for outcome in outcomes
        ],
    }


def parser(description: str | None, *, rounds: int) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=rounds, metavar="N", help=f"default {rounds}")
    made.add_argument("--json", action="store_true", help="print the figures as JSON")
    return made


def run(comparisons: Sequence[Comparison] | Setting, options: argparse.Namespace) -> int:
    """Measure and print; the exit status: 1 if a target is missed."""
    setting = comparisons if callable(comparisons) else lambda: nullcontext(comparisons)
    outcomes = measure(setting, options.rounds)
    if options.json:
        json.dump(document(outcomes), sys.stdout)
        print(flush=True)
    else:
        print("\n".join(table(outcome) for outcome in outcomes), flush=True)
    return int(not all(outcome.is_met(target) for outcome in outcomes for target in outcome.comparison.targets))


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"

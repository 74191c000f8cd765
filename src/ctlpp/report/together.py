"""Measures of seeds that lie in several run folders: their correlation with OOD accuracy over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ctlpp.report.compare import Setting, settings
from ctlpp.report.inside import rounded
from ctlpp.report.packing import Package
from ctlpp.runs.folder import RunRecord
from ctlpp.statistics.correlation import Correlation, correlate


def add_together(records: Sequence[RunRecord], packages: Sequence[Package]) -> None:
    """Give every measure of a run that is a part of its setting the correlation over the whole setting.

    An analysis of an earlier step than the accuracies is no part of it.
    """
    inside = {
        record.folder: package.facts["inside"]
        for record, package in zip(records, packages, strict=True)
        if "inside" in package.facts and not package.stale
    }
    for setting in settings(records):
        parts = [inside[record.folder] for record in setting.records if record.folder in inside]
        if len(parts) > 1:
            found = _correlations(setting, parts)
            for measure in (measure for part in parts for measure in part["measures"]):
                one = found[measure["name"]]
                measure["together"] = [
                    one.seeds,
                    *(rounded(value) for value in (one.pearson, one.low, one.high)),
                ]


def _correlations(setting: Setting, parts: Iterable[dict[str, Any]]) -> dict[str, Correlation]:
    """Of every measure, over the seeds that have not diverged; a seed in two parts counts once."""
    values: dict[str, dict[int, float | None]] = {}
    for part in parts:
        for measure in part["measures"]:
            known = dict(zip(part["seeds"], measure["values"], strict=True))
            values[measure["name"]] = known | values.get(measure["name"], {})
    seeds = [seed for seed in setting.seeds if not seed.diverged]
    ood = np.array([seed.accuracy.get("ood", np.nan) for seed in seeds], dtype=float)
    return {
        name: correlate(np.array([known.get(seed.number) for seed in seeds], dtype=float), ood)
        for name, known in values.items()
    }

"""The chapters of the page *Does it reproduce?* that follow the verdicts; each is a list of paragraphs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ctlpp.report.compare import SPLITS
from ctlpp.reproduce.plan import QUICK
from ctlpp.reproduce.results.checked import checks_table, settings_table
from ctlpp.reproduce.results.found import Found, repeats, tables
from ctlpp.reproduce.results.kinds import KINDS, main_cells
from ctlpp.reproduce.results.places import Places
from ctlpp.reproduce.results.predicting import ABOUT, predictions, predictors_table, sentence
from ctlpp.reproduce.results.reasons import reach_of
from ctlpp.reproduce.results.remaining import failures, miniature, progress, summary_table
from ctlpp.reproduce.results.repeating import repeats_sentence
from ctlpp.reproduce.results.sheet import claims_table
from ctlpp.reproduce.results.similar import Example
from ctlpp.reproduce.results.tables import (
    GAPS,
    by_table,
    gaps_table,
    grid_table,
    learning_table,
    name_of,
    repeats_table,
    runs_table,
    variance_table,
)
from ctlpp.reproduce.results.variance import components
from ctlpp.reproduce.results.verdicts import NEGLIGIBLE, USUAL
from ctlpp.reproduce.results.wording import NONE, chance, duration, listed, number, table, title
from ctlpp.runs.untrusted import as_dict, as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import FEWEST
from ctlpp.words import plural

NOT_YET = "Nothing of this has run yet."
RULES = (
    "The difference of the two means has a 95 % interval (Welch's, both sets of seeds being samples), widened by the"
    " rounding of what was published. *Higher*, *lower*: it excludes 0 and reaches beyond"
    f" ±{NEGLIGIBLE}. *Reproduced*: it lies within ±{NEGLIGIBLE}; or it lies within ± three quarters of the published"
    f" standard deviation, and even the {USUAL:.0%} interval has 0 in it. *Undecided*: neither; more seeds may tell,"
    " unless it is the published ones that are too few. It is undecided, too, if the OOD accuracy would be reproduced"
    " but the IID accuracy is higher or lower: seeds that learned their data otherwise than the published ones are"
    " another crowd."
    f" With fewer than {FEWEST} seeds *reproduced* is never said, and our spread is taken to be at least the published"
    " one: among so few, a kind of seed that makes up a quarter of all may be missing. Transformers are counted by the"
    " paper's rule, since the published ones were."
).replace("80%", "80 %")

COMMANDS = {
    "ctlpp reproduce all --plan": "what there is to run, and what it costs",
    "ctlpp reproduce all --scale quick --out miniature": "all of it in miniature, on a CPU in minutes",
    "ctlpp reproduce table1 --only ndr/R --seeds 0-11 --device cuda --out results": "a as_dict of it at full size; what is"
    " there is not trained again, what was interrupted goes on",
    "make results": "tables, figures and this page anew from `results/runs`",
}


def repeated(found: Found, places: Places) -> list[str]:
    """Do repeated sequences move the accuracies?"""
    about = (
        "The authors' generator draws the same function sequences again and again, with other start symbols: of 88,728"
        " examples of six functions only 12,599 have different sequences, with 16 worker processes; how many the"
        " authors used is not known. The option `--distinct-sequences` makes such data (`n/7`, one sequence to every 7"
        " examples of a length: at most 12,676 of six functions); here is what becomes of the accuracies. IID examples"
        " then have the function sequences of the training data, on other start symbols, while without repeats most"
        " long ones are new: the two IID accuracies are of different tests. OOD examples have new sequences either way."
    )
    if miniature(found):
        about += f" This miniature has `{QUICK.sequences}`."
    if not (pairs := repeats(found)):
        return [about, NOT_YET]
    points = [f"- **{name_of(one)}.** {repeats_sentence(found, one, other)}" for _, one, other in pairs]
    caption = (
        "OOD accuracy of every seed on {} with distinct and with repeated sequences, and means over time."
    )
    figures = [
        places.figure(
            f"repeats-{variant}", f"Distinct and repeated sequences, {variant}", caption.format(variant)
        )
        for variant in ("A", "R")
    ]
    return [about, "\n".join(points), *figures, repeats_table(found)]


def function_tables(found: Found, places: Places) -> list[str]:
    """Variance between and within function tables."""
    about = (
        "The functions are drawn at random, and those of the authors are not known. Here seeds are trained on several"
        " function tables. One-way random effects, from all seeds: the standard deviation between tables and within a"
        " table, and the table's share of the variance, with 95 % intervals of normal theory; p is how often means lie"
        " as far apart if seeds are dealt out to the tables at random."
    )
    several = [cells for cells in tables(found).values() if len(cells) > 1]
    if not several:
        return [about, NOT_YET]
    points = []
    for cells in several:
        if groups := by_table(cells):
            one = components(groups)
            matters = "The table matters" if one.chance < 0.05 else "That the table matters cannot be shown"
            means = listed([f"{number(sum(own) / len(own))} ({plural(len(own))})" for own in groups])
            points.append(
                f"- {name_of(cells[0])}: {matters} (p {chance(one.chance)}): the means are {means}. By these estimates"
                f" those of {paper.SEEDS} seeds on two tables differ by up to {number(reach_of(one))} in 95 % of cases."
            )
    caption = (
        "OOD accuracy of every seed by function table; the orange line is the mean of the tables' means."
    )
    figure = places.figure("tables", "OOD accuracy by function table", caption)
    return [
        about,
        "\n".join(points) or "Too few seeds on these tables so far.",
        variance_table(found),
        figure,
    ]


def staged(found: Found, places: Places) -> list[str]:
    """The grid of S."""
    about = (
        "The numbers of this grid were never published, only described. It is planned under `released`, the protocol of"
        " the published grid; `ctlpp reproduce staged --protocol paper` trains it under the other."
    )
    said = [f"{title(model)}: {claim.removeprefix('Published: ')}" for model, claim in paper.STAGED.items()]
    about += f" As described: {' '.join(said)} OOD accuracy, mean ± std (seeds):"
    grids = [
        f"{title(model)}, {protocol}:\n\n{grid}"
        for protocol in ("released", "paper")
        for model in ("ndr", "transformer", "lstm")
        if (grid := grid_table(found, model, protocol))
    ]
    if not grids:
        return [about, NOT_YET]
    caption = (
        "OOD accuracy on S by shared functions and shared symbols, mean ± std of all seeds; one that diverged counts"
        " with the accuracy at which it was frozen."
    )
    figure = places.figure("staged", "The grid of S", caption)
    return [about, claims_table(found), figure, *grids]


def inside(seen: Sequence[Example], places: Places) -> list[str]:
    """The paper's similarity figures."""
    if not seen:
        return ["No NDR on A or R has been trained and analysed yet."]
    caption = (
        "Cosine similarity of the vectors under the classifier for one symbol, made by each of the functions; shown is"
        " the symbol for which the two groups are least alike. The darkest colour is 0 or less. White lines separate"
        " clusters, the strip above has the colours of the groups."
    )
    measures = list(dict.fromkeys(label for one in seen for label, _ in one.measures.values()))
    rows = []
    for one in seen:
        own = dict(one.measures.values())
        numbers = [number(own[label]) if label in own else NONE for label in measures]
        ends = [number(one.seed.accuracy.get(split)) for split in SPLITS]
        link = f"[all symbols]({places.of(f'figures/similarity-{one.name}.png')})"
        rows.append([f"{name_of(one.cell)}, seed {one.seed.number}", *ends, *numbers, link])
    notes = [
        f"No seed on {one.cell.variant} is above {paper.SOLVED}: shown is the best."
        for one in seen
        if one.fails
    ]
    notes += [
        f"Every seed on {one.cell.variant} is above {paper.SOLVED}: shown is the worst."
        for one in seen
        if one.succeeds
    ]
    figure = places.figure("similarity", f"Similarity matrices of {plural(len(seen), 'seed')}", caption)
    return [figure, table(["", "IID", "OOD", *measures, "figure"], rows), *notes]


def predictors(found: Found, places: Places) -> list[str]:
    """Which measure tells a seed that fails from one that does not?"""
    if not (every := predictions(found)):
        return [ABOUT, NOT_YET]
    caption = "Pearson's and Spearman's correlation of each measure with OOD accuracy over seeds."
    figure = places.figure("predictors", "Correlations with OOD accuracy", caption)
    return ["\n".join(f"- {sentence(one)}" for one in every), ABOUT, figure, predictors_table(every)]


def details(found: Found, places: Places) -> list[str]:
    """Curves, lengths, gaps."""
    main = main_cells(found)
    if not main:
        return [NOT_YET]
    parts = [learning_table(main)]
    for kind in KINDS:
        caption = f"Accuracy over time, {kind.title}, all seeds."
        parts.append(places.figure(f"curves-{kind.name}", f"Curves, {kind.name}", caption))
        caption = f"Accuracy at the end by number of functions, {kind.title}, all seeds."
        parts.append(places.figure(f"lengths-{kind.name}", f"Lengths, {kind.name}", caption))
    gaps = gaps_table(found, main)
    return [*parts, *([GAPS, gaps] if gaps else [])]


def remaining(found: Found) -> list[str]:
    """What is still to be trained, and what went wrong."""
    failed = [f"- `{name}`: {reason}" for name, reason in failures(found).items()]
    whole = [progress(found), summary_table(found), "\n".join(["Failed:\n", *failed]) if failed else ""]
    return [*whole, not_analysed(found)]


def not_analysed(found: Found) -> str:
    """Finished runs that nobody has looked into; without weights they would have to be trained again for that."""
    records = [record for cell in found.cells.values() for record in cell.records]
    missing = [record for record in records if not (record.folder / "analysis" / "analysis.json").is_file()]
    names = {
        kept: [f"`{one.name}`" for one in missing if (one.folder / "checkpoint").is_dir() == kept]
        for kept in (True, False)
    }
    said = [f"Not analysed yet: {listed(names[True])}."] if names[True] else []
    said += (
        [f"Not analysed, and no weights are kept to do so: {listed(names[False])}."] if names[False] else []
    )
    return " ".join(said)


def checks(found: Found, places: Places) -> list[str]:
    """Is it the same model, and the same training?"""
    root = Path(os.path.relpath(places.out.parent, places.here)).as_posix() if places.in_repository else ""
    about = (
        "Before a difference is called a finding, the implementation is suspected. What the released code does is held"
        " against ours by these tests:"
    )
    precision = (
        "Both train in mixed precision. Ours on a GPU is bf16 with float32 weights and sums; it has not been compared"
        " with theirs."
    )
    settings = settings_table([cell for cell in found.cells.values() if cell.seeds])
    if miniature(found):
        return ["What the runs say of themselves:", settings] if settings else [NOT_YET]
    said = ["What the runs say of themselves:", settings] if settings else []
    return [about, checks_table(root), precision, *said]


def yourself() -> list[str]:
    """How a reader gets all this."""
    return [table(["command", "gives"], [[f"`{command}`", gives] for command, gives in COMMANDS.items()])]


def runs(found: Found, places: Places) -> list[str]:
    """Each run with device, versions and time."""
    if not found.cells:
        return [NOT_YET]
    time: dict[str, float] = {}
    for record in (record for cell in found.cells.values() for record in cell.records):
        device = as_str(as_dict(record.config.get("engine")).get("device_name")) or "an unknown device"
        time[device] = time.get(device, 0.0) + (record.seconds or 0.0)
    spent = listed([f"{duration(seconds)} on {device}" for device, seconds in sorted(time.items())])
    about = (
        f"All in [{places.out.name}/runs]({places.of('runs')}), each with `config.json` (every setting, versions,"
        " device), `metrics.parquet`, `result.json` and the numbers of its analysis, if it was analysed."
        f" `{places.out.name}/report.html` is a page to look around in all of them"
    )
    about += "; it is too large to be kept here, `make results` writes it." if places.in_repository else "."
    add_up = f"Their wall times add up to {spent}; runs at the same time shared the device."
    return [about, add_up if spent else "", runs_table(found)]

"""What was checked against the authors' released code, and where: every entry is a test of this repository."""

from __future__ import annotations

from ctlpp.reproduce.results.cells import Cell
from ctlpp.reproduce.results.wording import NONE, table, title
from ctlpp.runs.untrusted import as_dict
from ctlpp.statistics.published import PARAMETERS

CHECKS = {
    "NDR: every column's attention, gate and update by hand; the answer is read from column 0": (
        "tests/models/test_ndr.py",
        "test_ndr_equals_its_reference",
    ),
    "NDR: initial weights, scalars and the gate's bias": (
        "tests/models/test_ndr.py",
        "test_it_starts_as_released",
    ),
    "NDR: where dropout falls": (
        "tests/models/test_ndr.py",
        "test_dropout_falls_on_keys_on_what_attention_read_and_on_whole_columns_of_the_gate",
    ),
    "NDR: more layers at test than in training": (
        "tests/models/test_ndr.py",
        "test_evaluation_takes_more_steps_than_training",
    ),
    "Transformer: the same by hand": (
        "tests/models/test_transformer.py",
        "test_transformer_equals_its_reference",
    ),
    "Transformer: initial weights": ("tests/models/test_transformer.py", "test_it_starts_as_released"),
    "Transformer: where dropout falls": (
        "tests/models/test_transformer.py",
        "test_dropout_falls_on_keys_offsets_and_the_three_sums_of_a_layer",
    ),
    "Bi-LSTM: equal to that of PyTorch": (
        "tests/models/test_recurrent.py",
        "test_bidirectional_lstm_equals_the_one_in_torch",
    ),
    "Bi-LSTM: where dropout falls": (
        "tests/models/test_recurrent.py",
        "test_dropout_falls_on_the_embeddings_only",
    ),
    "Bi-LSTM: initial weights": (
        "tests/models/test_recurrent.py",
        "test_recurrent_weights_start_uniform_as_in_torch_and_embeddings_normal",
    ),
    "all: learning rate, warm-up, Adam's constants, decay, clipping, batch, steps": (
        "tests/training/test_recipe.py",
        "test_the_recipes_are_those_of_the_released_code",
    ),
    "all: optimiser and clipping equal to PyTorch's, seed by seed": (
        "tests/training/test_step.py",
        "test_a_seed_in_a_crowd_equals_pytorchs_optimizer_and_clipping_on_it_alone",
    ),
    "all: batches of one length, every example once a round": (
        "tests/training/test_batches.py",
        "test_a_round_visits_every_example_once_but_for_partial_batches",
    ),
    "all: trained parameters": (
        "tests/models/test_zoo.py",
        "test_the_released_models_have_exactly_as_many_parameters_as_published_code_trains",
    ),
    "GPU kernels of the NDR: the same result and gradients": ("tests/kernels/test_ndr.py", ""),
    "GPU kernels of the Bi-LSTM": ("tests/kernels/test_lstm.py", ""),
    "GPU kernels of the Transformer": ("tests/kernels/test_transformer.py", ""),
    "data of the released protocol": ("tests/benchmark/test_splits.py", ""),
}
SETTINGS = ("steps", "batch", "lr", "warmup", "optimizer", "weight_decay", "clip")


def checks_table(root: str) -> str:
    """The tests, with links from a page to the root of the repository; without, if that is not here."""
    links = {file: f"[{file}]({root}/{file})" if root else f"`{file}`" for file, _ in CHECKS.values()}
    rows = [[what, links[file] + (f", `{name}`" if name else "")] for what, (file, name) in CHECKS.items()]
    return table(["what", "test"], rows)


def settings_table(cells: list[Cell]) -> str:
    """What the runs themselves say of their models and their training, one line for all that say the same."""
    variants: dict[tuple[str, ...], set[str]] = {}
    for cell in cells:
        recipe, options = as_dict(cell.config.get("recipe")), as_dict(cell.config.get("options"))
        theirs, own = PARAMETERS.get(cell.model), cell.config.get("parameters")
        count = f"{own:,}" if isinstance(own, int) else NONE
        same = {True: " (as theirs)", False: ""}[own == theirs]
        sizes = ", ".join(f"{name} {_plain(value)}" for name, value in options.items())
        settings = ", ".join(f"{name} {_plain(recipe[name])}" for name in SETTINGS if name in recipe)
        said = title(cell.model), cell.preset, count + same, sizes, settings
        variants.setdefault(said, set()).add(cell.variant)
    rows = [[model, ", ".join(sorted(on)), *rest] for (model, *rest), on in variants.items()]
    return table(["model", "on", "preset", "trained parameters", "sizes", "training"], rows) if rows else ""


def _plain(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)

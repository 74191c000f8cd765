"""The folder read by Hugging Face's own library, without a network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctlpp.benchmark.dataset import Dataset


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The library, offline and with a cache of its own."""
    patch = pytest.MonkeyPatch()
    cache = tmp_path_factory.mktemp("hub")
    patch.setenv("HF_HUB_OFFLINE", "1")
    patch.setenv("HF_DATASETS_OFFLINE", "1")
    patch.setenv("HF_HOME", str(cache))
    patch.setenv("HF_DATASETS_CACHE", str(cache / "datasets"))
    library = pytest.importorskip("datasets")
    library.disable_progress_bars()
    yield lambda folder: library.load_dataset(str(folder), cache_dir=str(cache))
    patch.undo()


@pytest.mark.parametrize("variant", ["A", "S"])
@pytest.mark.parametrize("format", ["parquet", "jsonl", "text"])
def test_the_folder_is_a_dataset_of_the_hub(
    hub: Any, originals: Callable[..., Path], small: Callable[..., Dataset], variant: str, format: str
) -> None:
    loaded, dataset = hub(originals(variant, format=format)), small(variant)
    assert list(loaded) == list(dataset.splits)
    for split in dataset.splits:
        if format == "text":
            assert loaded[split]["text"][:] == ["\t".join(pair) for pair in dataset.texts(split)]
            continue
        assert loaded[split].column_names == ["input", "output", "length", "allowed"]
        pairs = zip(loaded[split]["input"], loaded[split]["output"], strict=True)
        assert list(pairs) == dataset.texts(split)
        expected = [length for length, examples in dataset[split].items() for _ in range(len(examples))]
        assert loaded[split]["length"][:] == expected
        assert loaded[split].features["allowed"].dtype == "bool"


def test_the_card_says_what_is_in_the_folder(originals: Callable[..., Path]) -> None:
    card = (originals("S", "released") / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\n")
    header, body = card.removeprefix("---\n").split("\n---\n", 1)
    assert '- split: unseen_symbols\n    path: "unseen_symbols.parquet"' in header
    assert 'pretty_name: "CTL++ S (released, seed 0)"' in header
    assert "| `ood` | 60 | 2, 4 | test examples from the OOD graph" in body
    assert "Also in `train`:" in body
    assert "IN → a1, b1; a1 → a2, o; b1 → b2, o" in body

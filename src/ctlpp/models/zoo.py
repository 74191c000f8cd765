"""The zoo: every model by name, with its sizes in each preset.

`released` is what the code behind the published numbers uses, `paper` what the paper's text says, and `quick` is small
enough to train in a minute on a CPU. How long and with which optimiser a preset trains is the recipe's business.

Example:
    >>> for name in ("lstm", "transformer", "ndr"):  # 32 functions, 8 symbols and the end mark
    ...     print(f"{name}: {parameters(build(name, vocab_size=41, n_classes=8)):,}")
    lstm: 407,816
    transformer: 155,018
    ndr: 673,299
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from ctlpp.files import UserError
from ctlpp.models import own
from ctlpp.models.gru import GRU
from ctlpp.models.lstm import BiLSTM
from ctlpp.models.lstm_uni import LSTM
from ctlpp.models.ndr import NDR
from ctlpp.models.rnn import RNN
from ctlpp.models.transformer import Transformer

PRESETS = ("released", "paper", "quick")
Sizes = dict[str, Any]  # keyword arguments of a factory


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """One model of the zoo."""

    name: str
    about: str  # one line
    factory: Callable[..., nn.Module]  # (vocab_size, n_classes, **sizes)
    sizes: Mapping[str, Sizes]  # by preset


_recurrent: Sizes = {"embedding": 256, "width": 128, "dropout": 0.5}
_recurrent_sizes = {
    "released": _recurrent,
    "paper": _recurrent,
    "quick": {"embedding": 32, "width": 32, "dropout": 0.0},
}

_transformer: Sizes = {
    "width": 128,
    "heads": 4,
    "hidden": 256,
    "depth": 8,
    "dropout": 0.1,
    "key_dropout": 0.1,
}
_transformer_sizes = {
    "released": _transformer,
    "paper": _transformer | {"hidden": 512, "dropout": 0.5, "key_dropout": 0.0},
    "quick": {"width": 64, "heads": 4, "hidden": 128, "depth": 5, "dropout": 0.0, "key_dropout": 0.0},
}

_ndr_dropout: Sizes = {"dropout": 0.5, "key_dropout": 0.1, "gate_dropout": 0.1}
_ndr: Sizes = {"width": 256, "heads": 4, "hidden": 512, "depth": 8, "test_depth": 10, **_ndr_dropout}
_ndr_sizes = {
    "released": _ndr,
    "paper": _ndr | {"hidden": 1024, "test_depth": 8, "key_dropout": 0.0},
    "quick": {
        "width": 64,
        "heads": 4,
        "hidden": 64,
        "depth": 5,
        "test_depth": 5,
        **dict.fromkeys(_ndr_dropout, 0.0),
    },
}

_specs = [
    ModelSpec(
        name="lstm",
        about="Bi-directional LSTM; both final states feed the classifier.",
        factory=BiLSTM,
        sizes=_recurrent_sizes,
    ),
    ModelSpec(
        name="transformer",
        about="Transformer with relative positions, one layer shared by all depths.",
        factory=Transformer,
        sizes=_transformer_sizes,
    ),
    ModelSpec(
        name="ndr",
        about="Neural Data Router: geometric attention and copy gates, one shared layer.",
        factory=NDR,
        sizes=_ndr_sizes,
    ),
    ModelSpec(
        name="lstm_uni",
        about="LSTM that reads only from the last token to the first, the order of application.",
        factory=LSTM,
        sizes=_recurrent_sizes,
    ),
    ModelSpec(
        name="gru",
        about="GRU that reads from the last token to the first.",
        factory=GRU,
        sizes=_recurrent_sizes,
    ),
    ModelSpec(
        name="rnn",
        about="Plain tanh RNN that reads from the last token to the first.",
        factory=RNN,
        sizes=_recurrent_sizes,
    ),
    ModelSpec(
        name="transformer_untied",
        about="The Transformer with weights of its own in every layer.",
        factory=Transformer,
        sizes={preset: sizes | {"shared": False} for preset, sizes in _transformer_sizes.items()},
    ),
]
MODELS = {spec.name: spec for spec in _specs}


def build(name: str, vocab_size: int, n_classes: int, preset: str = "released") -> nn.Module:
    """A model of the zoo, or, for `package.module:factory`, one of your own (which has no presets)."""
    if preset not in PRESETS:
        raise UserError(f"unknown preset {preset!r}: choose from {', '.join(PRESETS)}")
    if ":" in name:
        return own.make(own.load(name), vocab_size, n_classes, name)
    if name not in MODELS:
        raise UserError(f"unknown model {name!r}: choose from {', '.join(MODELS)}")
    spec = MODELS[name]
    return spec.factory(vocab_size, n_classes, **spec.sizes[preset])


def parameters(model: nn.Module) -> int:
    """How many numbers of the model are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)

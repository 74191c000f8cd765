"""Sizes that a user chooses for a model of the zoo, checked before it is built: their names, their ranges, the heads.

Example:
    >>> from ctlpp.models.ndr import NDR
    >>> check_sizes("ndr", NDR, {"width": -3}, {"width": -3, "heads": 4})
    Traceback (most recent call last):
    ctlpp.files.UserError: size width=-3: use a whole number from 1 to 65536
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from ctlpp.files import UserError

LARGEST = 65_536  # beyond it no machine has the memory


def check_sizes(
    model: str, factory: Callable[..., nn.Module], chosen: Mapping[str, Any], sizes: Mapping[str, Any]
) -> None:
    """Refuse what the factory cannot take. sizes: all keyword arguments; chosen: those of them that a user gave."""
    known = {
        name: parameter.annotation
        for name, parameter in inspect.signature(factory, eval_str=True).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for name, value in chosen.items():
        if name not in known:
            raise UserError(f"size {name}={value}: {model} has no {name}; choose from {', '.join(known)}")
        right, rule = _RULES[known[name]]
        if not right(value):
            raise UserError(f"size {name}={value}: use {rule}")
    _check_heads(chosen, sizes)


def _check_heads(chosen: Mapping[str, Any], sizes: Mapping[str, Any]) -> None:
    """The heads share the width among them."""
    width, heads = sizes["width"], sizes.get("heads", 1)
    if width % heads == 0:
        return
    if "heads" in chosen:
        near = _around(heads, [part for part in range(1, width + 1) if width % part == 0])
        raise UserError(f"size heads={heads}: must divide the width, {width}; use {near}")
    near = _around(width, [width // heads * heads, width // heads * heads + heads])
    raise UserError(f"size width={width}: must be a multiple of the heads, {heads}; use {near}")


def _around(value: int, right: list[int]) -> str:
    """The nearest of the right values below and above."""
    below, above = [one for one in right if 0 < one < value][-1:], [one for one in right if one > value][:1]
    return " or ".join(map(str, below + above))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1


_WHOLE = f"a whole number from 1 to {LARGEST}"
_RULES: dict[Any, tuple[Callable[[object], bool], str]] = {  # by the annotation of the keyword argument
    int: (_is_whole, _WHOLE),
    int | None: (lambda value: value is None or _is_whole(value), f"{_WHOLE}, or None"),
    float: (_is_share, "a number from 0 to below 1"),
    bool: (lambda value: isinstance(value, bool), "True or False"),
}

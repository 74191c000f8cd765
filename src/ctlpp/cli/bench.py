"""`ctlpp bench`: speed on this machine, side by side with a reference."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from ctlpp.files import UserError

app = typer.Typer(no_args_is_help=True)


@app.callback()
def about() -> None:
    """Speed on this machine, side by side with a reference, as a table.

    `ctlpp bench data`
    """


@app.command()
def data() -> None:
    """Generation against a plain-Python rejection sampler; the whole command; memory of ten million examples.

    `ctlpp bench data`
    """
    from ctlpp.bench.data import compare
    from ctlpp.cli.tables import print_table

    print_table(*compare())


@app.command()
def train(
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where to train.")] = "cpu",
    seeds: Annotated[
        str | None,
        typer.Option(help="CUDA only: crowd sizes, such as 1,25,50. [default: 1,2,5,10,25,50,100]"),
    ] = None,
) -> None:
    """Seeds trained together against a plain loop over single seeds; on a GPU, whole steps of crowds of several sizes.

    `ctlpp bench train`

    `ctlpp bench train --device cuda --seeds 25,50`
    """
    from ctlpp.cli.tables import print_table

    if device == "cpu" and seeds is not None:
        raise UserError(f"--seeds {seeds}: an option of --device cuda alone; leave it out for cpu")
    if device == "cpu":
        from ctlpp.bench.train import compare

        print_table(*compare())
        return
    from ctlpp.bench import cuda
    from ctlpp.training.inputs import find_device

    find_device(device)
    crowds = cuda.CROWDS if seeds is None else cuda.crowd_sizes(seeds)
    print_table(*cuda.compare(crowds=crowds), cuda.compare_own())

"""Where the value is found, and how often each place is tried for it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.analysis.analysis import analyze
from ctlpp.analysis.interchange import choose
from ctlpp.benchmark.task import Task
from ctlpp.models.activations import record
from ctlpp.training.crowd import Crowd


class Veiled(nn.Module):
    """Applies functions by table, and shifts each result by the start symbol, which only its column tells."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.n, self.functions, self.table = (
            task.n_symbols,
            task.n_functions,
            torch.tensor(task.table.tolist()),
        )

    def forward(self, tokens: Tensor) -> Tensor:  # (B, L + 2): f_L … f_1 s end
        last = tokens.shape[1] - 2  # the symbol's column
        shown = torch.where(torch.arange(last + 2) == last, tokens - self.functions, 0) % self.n
        h = F.one_hot(shown, self.n).float()  # (B, T, n)
        for column in range(last - 1, -1, -1):
            shift = h[:, last].argmax(-1)
            before = h[:, column + 1].argmax(-1) - (0 if column == last - 1 else shift)
            new = self.table[tokens[:, column], before % self.n] + shift
            here = (torch.arange(last + 2) == column)[None, :, None]
            h = record("state", torch.where(here, F.one_hot(new % self.n, self.n).float()[:, None], h))
        answer = (h[:, 0].argmax(-1) - h[:, last].argmax(-1)) % self.n
        return record("readout", F.one_hot(answer, self.n).float())


def test_a_note_tells_how_many_seeds_have_all_columns_of_the_prefix_exchanged(
    task: Task, systematic: Crowd
) -> None:
    found = analyze(Veiled(task), task)
    assert found.position is not None
    assert found.changed[found.position[0, 1]] == "prefix"
    assert found.notes == [
        "1 of 1 seed: no single column carries the value; all columns of the prefix are exchanged together,"
        " which early in the network comes near to exchanging the input"
    ]
    assert not analyze(systematic, task).notes


def test_the_last_of_the_best_places_is_taken_and_several_columns_only_if_no_single_one_will_do() -> None:
    several = torch.tensor([False, False, True])
    clear = torch.tensor([[0.1, 0.95, 1.0], [0.1, 0.94, 1.0], [0.5, 0.2, 0.3]])
    spread = torch.tensor([[0.1, 0.6, 0.9], [0.1, 0.5, 0.7], [0.5, 0.2, 0.3]])
    index, option = choose(torch.stack([clear, spread]), several)
    assert index.tolist() == [1, 0]
    assert option.tolist() == [1, 2]

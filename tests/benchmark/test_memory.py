"""Ten million examples of long compositions fit into little memory."""

import subprocess
import sys

PROGRAM = """
import resource
from ctlpp.benchmark.dataset import generate

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # MiB

before = peak()
dataset = generate("A", functions=64, max_length=10, train=10_000_000)
print(dataset.size("train"), peak() - before)
"""


def test_ten_million_training_examples_need_less_than_a_gibibyte() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    examples, mebibytes = map(int, done.stdout.split())
    assert examples == 10_000_000
    assert mebibytes < 1024

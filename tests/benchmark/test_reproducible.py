"""The same bytes in every process, with any hash seed and any number of threads; and they are pinned."""

import hashlib
import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from ctlpp.benchmark.dataset import generate
from ctlpp.storage.folder import digest, rows
from ctlpp.storage.task_json import to_json

WANTED = [(variant, protocol) for variant in ("CTL", "A", "R", "S") for protocol in ("paper", "released")]

# sha256 of the default datasets. To pin them again after a wanted change, paste what this prints:
#   python tests/benchmark/test_reproducible.py
PINNED: dict[str, dict[str, str]] = {
    "CTL paper": {
        "task": "a18b0216994eec1788c3b5a977aa103ed281c1635e032088741779f15164de75",
        "train": "306305594588d2d592a3c4cab2603f0b5e3652c9cf4d9db55e433ad080ca7382",
        "iid": "fdd7aeb3b21394489e5d56c65d083767ce798a1dbdbfa474706b1196da1b012d",
        "ood": "41d6db85fa7cc237a1dae86451c018a4ae8ce9a28cfbec25df14b5a056453ffd",
        "singles": "a8de73aeb06ef9b220740ac1e12f5352a7ae9872d8da3dafca5192e5c98eeee2",
        "pairs": "fa419fea89af66e1b7b1fa3571a37877f76878e3674ba2704bf291e38530ccd1",
        "any": "6c46f670090010f639461c5b8c1ed9e347ce3ff3b2c8bd625bae1c37087b3422",
    },
    "CTL released": {
        "task": "faba6fcd036fa2edbe50b76f97f40f7bb669cce3dc1e9afd3f1c61947179684e",
        "train": "19013769c5d67a05c32ab193964d3e919682fc07cae753d5ad3b665348c9de45",
        "iid": "5282960d77c628827e98462eef3d2ad4d1c8a054806d41ac9dd7d3c8082eb240",
        "ood": "41d6db85fa7cc237a1dae86451c018a4ae8ce9a28cfbec25df14b5a056453ffd",
        "singles": "a8de73aeb06ef9b220740ac1e12f5352a7ae9872d8da3dafca5192e5c98eeee2",
        "pairs": "fa419fea89af66e1b7b1fa3571a37877f76878e3674ba2704bf291e38530ccd1",
        "any": "bb2cde9282213136e95cf6c8cf4e5154ab529fd09710976bc6ce1916f6af91aa",
    },
    "A paper": {
        "task": "a0dd1e8ebe227a41c58b66f2f62e0e53cde4aad603b47891b9d0553394e8dd0e",
        "train": "7979d535a72d5d746477c09e5cc10dbb68a46ac71c28d5716e1ae0b7a5085a6b",
        "iid": "b8b8cc2737a567bb04598ff7798cf892b1017acc5367bebee196fe24934e11dc",
        "ood": "b90218561b6d08ccb6676533fac82c5ee55da022ae1322e73906b692d2ba5e80",
        "singles": "a8de73aeb06ef9b220740ac1e12f5352a7ae9872d8da3dafca5192e5c98eeee2",
        "pairs": "fa419fea89af66e1b7b1fa3571a37877f76878e3674ba2704bf291e38530ccd1",
        "any": "f72e05eae88cf2a6524d280456b666a8bd89fbf70f9d1e9576525c2a9aac705c",
    },
    "A released": {
        "task": "917f6d32e4e18782a530e291b7aba0ee5a4a2edac3c311bf79e9341ac2cc6e5e",
        "train": "a7f8b04607a5a53c382a7a4ce803fae5f2d452be84b771d4da27bfbf112eff9f",
        "iid": "14f371efdea5ce9ad13805f0bb6ec4de08c0ca22681b003b5542b660f2f48cc7",
        "ood": "b90218561b6d08ccb6676533fac82c5ee55da022ae1322e73906b692d2ba5e80",
        "singles": "a8de73aeb06ef9b220740ac1e12f5352a7ae9872d8da3dafca5192e5c98eeee2",
        "pairs": "fa419fea89af66e1b7b1fa3571a37877f76878e3674ba2704bf291e38530ccd1",
        "any": "075f15cd56931a482c3b2b712062d1ff510586356cd2fcedbd7e5264e168bab4",
    },
    "R paper": {
        "task": "9bd98bf3c6d942fb41c4fa46988a74ee5b4e4e61308b3566298c6ff81f8a9935",
        "train": "3845cca87317d43eb261a088bf5e6727d34b2c480fd7286cc917c10d631a5fc6",
        "iid": "3128d2713b213bdee995e909a2f5f0a5ba7627015b682713bf536b4bcb51dc0d",
        "ood": "376b34797808642bf0ed2241ff770b343f8686fee3845828d6bddd13cb11e298",
        "singles": "a8de73aeb06ef9b220740ac1e12f5352a7ae9872d8da3dafca5192e5c98eeee2",
        "pairs": "fa419fea89af66e1b7b1fa3571a37877f76878e3674ba2704bf291e38530ccd1",
        "any": "558d58147e5d90320adea839a534bcdd649cbc065d1e9a0597de83a68139fad7",
    },
    "R released": {
        "task": "2ffa232b2f0623eaf49d7b7448443e8a41c6825bdbd1096424b3dc4be19af151",
        "train": "9314e34af2f4803ab5d56c054fb271fa21bb76c8118a1138b9709f2bb1783509",
        "iid": "b7ef2f2db0034a488c02b353e6d479f2e68d15972ff51ec12fc9e771a9bab0db",
        "ood": "376b34797808642bf0ed2241ff770b343f8686fee3845828d6bddd13cb11e298",
        "singles": "a8de73aeb06ef9b220740ac1e12f5352a7ae9872d8da3dafca5192e5c98eeee2",
        "pairs": "fa419fea89af66e1b7b1fa3571a37877f76878e3674ba2704bf291e38530ccd1",
        "any": "afe9724e040bc3aed55741ce26d668d7fff1a87d5c502a0221d22868d5532f4e",
    },
    "S paper": {
        "task": "23fb33203d0958e414d487a0488f5a198687e5f297b531d678087ebca99d1852",
        "train": "66d07f820ebc33d8791e233892ff8faceae8eb6a018aa84cc8be3e82bae8e13f",
        "iid": "7c5b7911a1826e8385bf483c5068379114c0746d9484a1e518bb2c881affa83a",
        "ood": "fc61f345192d794e2ec251d12de2d9ffa535735e53aefb0079b355c3565f6750",
        "singles": "a8de73aeb06ef9b220740ac1e12f5352a7ae9872d8da3dafca5192e5c98eeee2",
        "pairs": "fa419fea89af66e1b7b1fa3571a37877f76878e3674ba2704bf291e38530ccd1",
        "any": "f56fcde6ed82f00b7f38fcbae5a081d41c5b5d7d7ba55bbf3617d6c6ecace80e",
        "shared_path": "5ff35b3636b1597852c8a53a2b93e4e8a493a3c121ddbe4eff87b4d992770e54",
        "unseen_symbols": "85c52091d45e574cf3cfb22b0fb056bc165681dd4d42b923f315ad55f6e4daca",
    },
    "S released": {
        "task": "6d6b87fb1032216fb2d72e917826ddbcb10f4f7716cd8df4afb890ff39fbc5bb",
        "train": "0939c1ba20b15d6f236b98e5baff5df43a9e939a1f9ff9accf6d95f75e64510b",
        "iid": "1f44e3c6f95edf81616c0badae3e02d230e820ff769a7d02ca3b521080101041",
        "ood": "fc61f345192d794e2ec251d12de2d9ffa535735e53aefb0079b355c3565f6750",
        "singles": "a8de73aeb06ef9b220740ac1e12f5352a7ae9872d8da3dafca5192e5c98eeee2",
        "pairs": "fa419fea89af66e1b7b1fa3571a37877f76878e3674ba2704bf291e38530ccd1",
        "any": "3d3c53d067b9ec5fd43e9d4fa8eaff87ba416191859dfb8cf0078a320f4cb0d5",
        "shared_path": "7ff95d1aad741688e4e90beb7ebd0c1d71eccefcd4b57ccb3560185f9d73cd6c",
        "unseen_symbols": "85c52091d45e574cf3cfb22b0fb056bc165681dd4d42b923f315ad55f6e4daca",
    },
}


@cache
def sums() -> dict[str, dict[str, str]]:
    """The sha256 of every split of the default datasets, and of what defines the task."""
    return {f"{variant} {protocol}": sums_of(variant, protocol=protocol) for variant, protocol in WANTED}


def sums_of(variant: str, **options: Any) -> dict[str, str]:
    dataset = generate(variant, **options)
    task = to_json(dataset.task, dataset.settings, {})
    splits = {name: digest(rows(dataset.task, split)) for name, split in dataset.splits.items()}
    return {"task": hashlib.sha256(task.encode()).hexdigest()} | splits


@pytest.mark.parametrize("name", [f"{variant} {protocol}" for variant, protocol in WANTED])
def test_the_default_datasets_are_pinned(name: str) -> None:
    assert sums()[name] == PINNED[name]


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"},
        {"PYTHONHASHSEED": "31337", "OMP_NUM_THREADS": "4", "ARROW_IO_THREADS": "4"},
    ],
    ids=["one thread", "four threads"],
)
def test_a_second_process_makes_the_same_bytes_with_another_hash_seed(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, __file__], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == sums()


def test_another_seed_makes_other_data() -> None:
    one, other = (sums_of("A", train=1000, iid=50, ood=50, seed=seed) for seed in (0, 1))
    assert all(one[name] != other[name] for name in ("train", "iid", "ood", "any", "singles", "task"))


def test_writing_order_changes_the_text_but_not_the_examples() -> None:
    one, other = (
        generate("R", train=1000, iid=50, ood=50, order=order) for order in ("right-to-left", "left-to-right")
    )
    assert [sorted(text.split()) for text, _ in one.texts("train")] == [
        sorted(text.split()) for text, _ in other.texts("train")
    ]


def test_a_smaller_test_set_does_not_change_the_others() -> None:
    one, other = (sums_of("A", train=1000, iid=50, ood=ood) for ood in (50, 60))
    assert (one["train"], one["iid"]) == (other["train"], other["iid"])
    assert one["ood"] != other["ood"]


if __name__ == "__main__":
    print(json.dumps(sums(), indent=4))

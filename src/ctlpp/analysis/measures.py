"""The measures by name: what a figure or a page calls them, and what a high value means."""

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """A measure, in words."""

    label: str
    meaning: str


MEASURES = {
    "pairs_train": About(
        "accuracy, known pairs", "share of right answers to all pairs of the training graph"
    ),
    "pairs_ood": About(
        "accuracy, new pairs", "share of right answers to all pairs that only the test graph has"
    ),
    "interchange_across": About(
        "interchange across", "a consumer given a state from a group it never met in training answers right"
    ),
    "interchange_within": About(
        "interchange within",
        "the same with states it knows from training; low values mean that the place is wrong",
    ),
    "stitch_orthogonal": About(
        "interchange, rotated", "interchange across after an orthogonal map between the groups"
    ),
    "stitch_affine": About(
        "interchange, affine map", "interchange across after an affine map between the groups"
    ),
    "codes": About("codes a symbol", "mean number of behaviours that stand for one symbol; 1 is systematic"),
    "clusters": About("clusters a symbol", "mean number of clusters of readouts for one symbol"),
    "cosine_across": About(
        "cosine across", "mean similarity of readouts of one symbol made by different groups"
    ),
    "cosine_within": About("cosine within", "mean similarity of readouts of one symbol made by one group"),
    "probe_across": About(
        "probe across", "a linear probe fitted on one group reads the symbol from the other"
    ),
    "probe_within": About(
        "probe within", "a linear probe reads the symbol from unseen functions of its group"
    ),
    "cka": About("linear CKA", "similarity of the geometry of the two groups' states"),
}
PREDICTORS = [
    name for name in MEASURES if not name.startswith("pairs_")
]  # those that do not look at the answers' share

"""The measures by name: what a figure or a page calls them, and what a high value means."""

from typing import NamedTuple


class About(NamedTuple):
    """A measure, in words."""

    label: str
    meaning: str


MEASURES = {
    "pairs_train": About("accuracy, known pairs", "share of right answers to pairs of the training graph"),
    "pairs_ood": About("accuracy, new pairs", "share of right answers to pairs that only the test graph has"),
    "interchange_across": About("interchange across", "a consumer reads states of a group it has never met"),
    "interchange_within": About("interchange within", "the same with states that it knows from training"),
    "stitch_orthogonal": About("interchange, rotated", "interchange across after an orthogonal map"),
    "stitch_affine": About("interchange, affine map", "interchange across after an affine map"),
    "codes": About("codes a symbol", "mean number of behaviours that stand for one symbol; 1 is systematic"),
    "clusters": About("clusters a symbol", "mean number of clusters of readouts for one symbol"),
    "cosine_across": About("cosine across", "mean similarity of readouts of one symbol between groups"),
    "cosine_within": About("cosine within", "mean similarity of readouts of one symbol within groups"),
    "probe_across": About("probe across", "a linear probe fitted on one group reads the other's symbols"),
    "probe_within": About("probe within", "a linear probe reads the symbol from unseen functions"),
    "cka": About("linear CKA", "similarity of the geometry of the two groups' states"),
}
PREDICTORS = [name for name in MEASURES if not name.startswith("pairs_")]  # not read off the answers' share

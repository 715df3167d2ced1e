import numpy as np

from fflbench.randomness import stream


def test_streams_differ_by_seed_and_by_every_part_of_their_purpose():
    purposes = [
        (0,),
        (1,),
        (0, "a"),
        (0, "b"),
        (0, "a", 1),
        (0, "a", "1"),
        (0, "a', 1"),
        (0, "batches", 1, 2),
        (0, "batches", 2, 1),
    ]
    assert len({stream(*purpose).integers(2**63) for purpose in purposes}) == len(purposes)


def test_a_numpy_integer_names_the_same_stream_as_pythons():
    assert stream(0, "batches", np.int64(3)).integers(2**63) == stream(0, "batches", 3).integers(2**63)

from fflbench.data.train_test_split import fixed_train_test_split


def test_the_fixed_split_follows_the_permutation_that_numpy_promises():
    train, test = fixed_train_test_split(10)
    assert train.tolist() == [2, 8, 4, 9, 1, 6, 7, 3]
    assert test.tolist() == [0, 5]

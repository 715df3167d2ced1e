"""Figures that the FFL paper prints."""

from fflbench.defenses.transports.fragment_exchange import published_costs as paper

from fflbench.measures import published_results


def test_the_papers_table_is_whole():
    assert len(paper.RUNTIME) == 4 * 3 * 6
    assert paper.RUNTIME["cifar10-vgg16", 100, "ffl"] == (3.675, 4.883, 1.319)
    assert paper.RUNTIME["imdb-bilstm", 50, "multi-krum"] == (0, 5.657, 0)
    assert paper.RUNTIME["mnist-cnn", 10, "trimmed-mean"] == (0, 0.007, 0)


def test_the_papers_figures_stand_beside_measured_ones():
    for table, figures in (
        ("runtime", paper.RUNTIME),
        ("complexity", paper.COMPLEXITY),
        ("communication", paper.COMMUNICATION),
    ):
        assert published_results.table(table).items() >= figures.items()

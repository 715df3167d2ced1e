"""docs/coverage.md: all built-in attacks and rules, and every one of the libraries that it compares them with."""

import re

import pytest

from fflbench import registry
from fflbench.registry import Kind
from tests.docs.compatibility import PAGE

TEXT = (PAGE.parent / "coverage.md").read_text("utf-8")
TABLES = {
    "Untargeted attacks": {Kind.ATTACK},
    "Rules and pre-aggregations": {Kind.RULE, Kind.PREAGGREGATION},
}
"""Kinds of the plugins in the second column of a section's table."""

LIBRARIES = {
    "ByzFL": """NoAttack SignFlipping InnerProductManipulation Optimal_InnerProductManipulation ALittleIsEnough
        Optimal_ALittleIsEnough Mimic Inf Gaussian LabelFlipping
        Average Median TrMean GeometricMedian Krum MultiKrum CenteredClipping MDA MoNNA Meamed CAF SMEA
        NNM Bucketing Clipping ARC""",
    "Blades": """SignFlipAdversary ALIEAdversary LabelFlipAdversary AdaptiveAdversary IPMAdversary NoiseAdversary
        SignGuardAdversary MinMaxAdversary AttackclippedclusteringAdversary
        Mean Median Trimmedmean GeoMed DnC Clippedclustering Signguard Multikrum Centeredclipping""",
    "FLPoison": """NoAttack ALIE AlterMin BadNets BadNets_image DBA EdgeCase FangAttack Gaussian IPM LabelFlipping Mimic
        MinMax MinSum ModelReplacement Neurotoxin SignFlipping ThreeDFed
        Auror Bucketing Bulyan CenteredClipping CRFL DeepSight DnC FLAME FLDetector FLTrust FoolsGold Krum LASA Mean
        Median MultiKrum NormClipping RFA SignGuard SimpleClustering TrimmedMean""",
    "Flower": """Bulyan FedAdagrad FedAdam FedAvg FedAvgM FedMedian FedProx FedTrimmedAvg FedXgbBagging FedXgbCyclic
        FedYogi Krum MultiKrum QFedAvg""",
    "FedML": """ByzantineAttack LabelFlippingAttack LazyWorkerAttack
        norm_diff_clipping robust_learning_rate krum multikrum slsgd geo_median weak_dp cclip wise_median rfa foolsgold
        3sigma_foolsgold 3sigma_geo 3sigma crfl trimmed_mean anomaly_detection
        BulyanDefense ResidualBasedReweightingDefense SoteriaDefense WbcDefense""",
}
"""Attacks on training and defenses of each library, in the versions that the page names."""


def table(heading, number=0):
    """Header and rows of a section's table of a number."""
    section = re.split(rf"^##+ {re.escape(heading)}\n", TEXT, flags=re.MULTILINE)[1]
    lines = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)[number].splitlines()
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return header, rows


def names(cell):
    """Names of a library's cell, without remarks in brackets."""
    return {name.strip() for name in re.sub(r"\([^)]*\)", "", cell).split(",")} - {""}


@pytest.mark.parametrize(("heading", "kinds"), TABLES.items())
def test_the_tables_have_every_built_in_plugin_and_no_other(heading, kinds):
    header, rows = table(heading)
    assert header[1] == "fflbench"
    shown = [row[1] for row in rows]
    registered = {f"`{entry.name}`" for kind in kinds for entry in registry.entries(kind) if not entry.source}
    assert registered - set(shown) == set(), "not in the table"
    assert set(shown) - registered == set(), "not registered"
    assert len(shown) == len(registered)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_method_of_a_library_is_in_a_table_or_left_out_with_a_reason(library):
    present = set()
    for heading in TABLES:
        header, rows = table(heading)
        if library in header:
            present |= set().union(*(names(row[header.index(library)]) for row in rows))
    header, rows = table("What is left out")
    assert header == ["name", "library", "why"]
    assert all(row[2] for row in rows)
    left_out = set().union(*(names(row[0]) for row in rows if row[1] == library))
    assert present | left_out == set(LIBRARIES[library].split())


def test_the_names_of_byzfl_are_those_of_the_package():
    pytest.importorskip("byzfl")
    from byzfl.aggregators import aggregators, preaggregators
    from byzfl.attacks import attacks

    classes = {
        name
        for module in (aggregators, preaggregators, attacks)
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__.startswith("byzfl")
    }
    assert classes | {"NoAttack"} == set(LIBRARIES["ByzFL"].split())

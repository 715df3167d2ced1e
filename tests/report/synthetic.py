"""Records as a run would write them, with figures that a test chooses; and ways to find a figure in tables."""

from fflbench import registry
from fflbench.errors import NotRegisteredError
from fflbench.federation import chain
from fflbench.records.manifest import RESULTS_VERSION
from fflbench.records.parts import CHAIN, parts_of, restricted
from fflbench.records.record import Record, identify
from fflbench.registry import Kind


def versions(configuration):
    """Results versions of all parts that are registered here, as a manifest holds them."""
    known = {(entry.kind, entry.name): entry.results_version for kind in Kind for entry in registry.entries(kind)}
    parts = parts_of(configuration)
    return {"core": RESULTS_VERSION, **{part.key: known.get((part.kind, part.name), 1) for part in parts}}


def chained(defense, parameters, depends_on=tuple(CHAIN)):
    """The configuration of a defense as a measure's cell has it; one that is not registered here is a rule."""
    try:
        whole = chain.parse(defense).check(parameters)
    except NotRegisteredError:
        plain = {"name": "plain", "parameters": {}}
        whole = {"transport": plain, "preaggregations": [], "rule": {"name": defense, "parameters": parameters}}
    return restricted(whole, depends_on)


def record(measure, metrics, *, facts=None, history=(), defense="fedavg", seed=0, task="digits-mlp", **told):
    """A record of any measure; `told` may hold an attack, a deviation's parameters, parameters by kind, labels, sweep,
    and fields of a record.
    """
    parameters, labels = told.pop("parameters", {}), told.pop("labels", {})
    names = {"task": task, "measure": measure}
    names |= {kind: told.pop(kind) for kind in ("attack", "privacy-attack") if kind in told}
    entry = registry.find(Kind.MEASURE, measure)
    own = entry.check(parameters.get("measure", {})) if entry else parameters.get("measure", {})
    configuration = {
        kind: {"name": name, "parameters": own if kind == "measure" else parameters.get(kind, {})}
        for kind, name in names.items()
    }
    depends_on = entry.target.depends_on if entry else tuple(CHAIN)
    configuration["defense"] = chained(defense, parameters.get("defense", {}), depends_on)
    names["defense"] = defense
    if deviation := told.pop("deviation", None):
        transport = configuration["defense"]["transport"]["name"]
        configuration["deviation"] = {"name": transport, "parameters": deviation}
        names["deviation"] = ", ".join(f"{name} = {value}" for name, value in deviation.items())
    configuration["seed"] = seed
    manifest = {"results": versions(configuration), "processor": "x"}
    made = {
        "id": identify(configuration),
        "suite": "own",
        "labels": names | labels,
        "configuration": configuration,
        "status": "done",
        "metrics": metrics,
        "facts": facts or {},
        "history": list(history),
        "manifest": manifest,
    }
    return Record(**(made | told))


def robust(attack="none", defense="fedavg", seed=0, accuracy=0.9, success=0.0, **told):
    """A record of robustness."""
    facts = {"targeted": attack == "label-flipping", "attackers": [7], "flags": [], **told.pop("facts", {})}
    metrics = {
        "test_loss": 1 - accuracy,
        "accuracy": accuracy,
        "source_accuracy": accuracy,
        "attack_success_rate": success,
        "class_accuracy": [accuracy],
        "diverged": False,
        **told.pop("metrics", {}),
    }
    told.setdefault("history", [{"round": number, "accuracy": accuracy * number / 3} for number in (1, 2, 3)])
    return record("robustness", metrics, attack=attack, defense=defense, seed=seed, facts=facts, **told)


CAUTIONS = {"colluding-participant": "a participant colludes"}


def membership(
    attack="loss-difference", defense="fedavg", seed=0, observation="submission", auc=0.5, rate=0.01, **told
):
    """A record of membership inference with 100 members; `rate` of them are found."""
    parameters = {"observation": observation, **told.pop("measure", {})}
    facts = {
        "adaptive": None if defense == "fedavg" else observation != "submission",
        "observation": f"the view called {observation}",
        "knows": ["server view"] + ["a participant's view"] * (observation == "colluding-participant"),
        "caution": CAUTIONS.get(observation, ""),
        "members": 100,
        "non_members": 100,
        "training": "1 epoch",
        "examples_each": 70.0,
        **told.pop("facts", {}),
    }
    others = [metric.name for metric in registry.get(Kind.MEASURE, "membership").target.metrics]
    known = {"auc": auc, "auc_by_chance": 0.56, "tpr_at_fpr_0.01": rate, "accuracy": 0.9}
    metrics = dict.fromkeys(others) | known
    told.setdefault("history", [{"fpr": x, "tpr": min(1.0, x + seed / 10)} for x in (0.0, 0.5, 1.0)])
    return record(
        *("membership", metrics),
        **{"privacy-attack": attack},
        labels={"measure": f"membership (observation = {observation})"},
        parameters={"measure": parameters},
        facts=facts,
        defense=defense,
        seed=seed,
        **told,
    )


def rebuilt(defense="fedavg", seed=0, observation="submission", psnr=40.0, **told):
    """A record of reconstruction."""
    facts = {
        "adaptive": None if defense == "fedavg" else observation != "submission",
        "observation": f"the view called {observation}",
        "knows": ["server view"],
        "reconstructions": 1,
        "victims": 2,
    }
    metrics = {"psnr": psnr, "best_psnr": psnr, "floor_psnr": 10.0 + seed, "floor_best_psnr": 11.0}
    metrics |= {"mse": 0.01, "floor_mse": 0.1, "label_accuracy": 1.0, "floor_label_accuracy": 0.1}
    parameters = {"observation": observation, "groups": 1, **told.pop("measure", {})}
    attack = told.pop("attack", "analytic")
    return record(
        *("reconstruction", metrics),
        **{"privacy-attack": attack},
        parameters={"measure": parameters, **told.pop("parameters", {})},
        facts=facts | told.pop("facts", {}),
        defense=defense,
        seed=seed,
        **told,
    )


def timed(defense="fedavg", updates=10, seconds=0.01, seed=0, **told):
    """A record of runtime; `seconds` may be a function of updates and columns, for a model of ten million."""
    points = (1_000_000, 3_000_000, 10_000_000)
    large = callable(seconds)
    history = [
        {"columns": d, "decryption": 0.0, "aggregation": seconds(updates, d), "participant": 0.0}
        for d in points
        if large
    ]
    spent = seconds(updates, points[-1]) if large else seconds
    facts = {"columns": points[-1] if large else 2410, "updates_bytes": 1, "timed_runs": 2}
    metrics = {"seconds": spent, "participant_seconds": 0.0, "peak_bytes": 1e6, "decryption_seconds": 0.0}
    metrics |= {
        "aggregation_seconds": spent,
        "decryption_spread": 0.0,
        "aggregation_spread": 0.0,
        "participant_spread": 0.0,
    }
    parameters = {"measure": {"updates": updates, **told.pop("measure", {})}, **told.pop("parameters", {})}
    told.setdefault("facts", facts)
    return record(
        *("runtime", metrics), parameters=parameters, defense=defense, seed=seed, history=history, **told
    )  # fmt: skip


def failed(of, error="boom"):
    """The same cell, as it is written when it fails."""
    return of.model_copy(
        update={"status": "failed", "error": error, "metrics": {}, "facts": {}, "history": [], "arrays": ""}
    )


def diverged(of):
    """The same cell, with a loss that is not finite."""
    return of.model_copy(update={"metrics": of.metrics | {"test_loss": None, "diverged": True}})


def swept(of, kind, parameter, value, label):
    """The same cell as one value of a suite's sweep over a parameter of a kind."""
    chosen = of.configuration[kind]
    if kind == "defense":
        rule = chosen["rule"]
        changed = chosen | {"rule": rule | {"parameters": rule["parameters"] | {parameter: value}}}
    else:
        changed = chosen | {"parameters": chosen["parameters"] | {parameter: value}}
    configuration = of.configuration | {kind: changed}
    return of.model_copy(
        update={
            "id": identify(configuration),
            "configuration": configuration,
            "labels": of.labels | {kind: f"{label} ({parameter} = {value})"},
            "sweep": {**of.sweep, kind: {"parameter": parameter, "value": value, "label": label}},
        }
    )


def three_seeds(make=robust, **told):
    """Three seeds; defenses wander a little apart from seed to seed, or there would be nothing to test by."""
    accuracy = told.pop("accuracy", 0.9)
    wander = [0, 0.0003, -0.0003] if told.get("defense") == "median" else [0, 0, 0]
    return [make(seed=seed, accuracy=accuracy + 0.01 * seed + wander[seed], **told) for seed in range(3)]


WHOLE = [
    *three_seeds(),
    *three_seeds(defense="median", accuracy=0.88),
    *three_seeds(attack="gaussian-noise", accuracy=0.4),
    *three_seeds(attack="gaussian-noise", defense="median", accuracy=0.85),
    *three_seeds(attack="noise-control", accuracy=0.3),
    *three_seeds(attack="noise-control", defense="median", accuracy=0.87),
    *three_seeds(attack="label-flipping", accuracy=0.8, success=0.5),
    *three_seeds(attack="label-flipping", defense="median", accuracy=0.8, success=0.1),
]
"""Two defenses, three attacks and none, three seeds."""


def chosen(records, **labels):
    """Those with these labels and, as `seed`, this seed."""
    seed = labels.pop("seed", None)
    return [each for each in records if labels.items() <= each.labels.items() and seed in (None, each.seed)]


def changed(records, change, **labels):
    """The records, those with these labels changed."""
    hit = chosen(records, **labels)
    assert hit
    return [change(each) if each in hit else each for each in records]


def table(board, name):
    """A table of a board by its name."""
    names = [each.name for each in board.tables]
    assert name in names, names
    return board.tables[names.index(name)]


def cell(found, row, column):
    """A place of a table by the names of its row and column."""
    names, rows = [each.name for each in found.columns], [each.label for each in found.rows]
    assert column in names, names
    assert row in rows, rows
    return found.rows[rows.index(row)].cells[names.index(column)]


def no_arrays(_record):
    """Of records that have none."""
    return {}

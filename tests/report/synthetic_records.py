"""Records as a run would write them, with figures that a test chooses; and ways to find a figure in tables."""

from fflbench import registry
from fflbench.attacker_tolerance import undefined_reason
from fflbench.errors import NotRegisteredError
from fflbench.federation import chain
from fflbench.records.cell_configuration import CHAIN, GOALS, registered_parts, restrict_defense
from fflbench.records.manifest import RESULTS_VERSION
from fflbench.records.record import Record, cell_id
from fflbench.registry import Kind


def results_versions(configuration):
    """Results versions of all parts that are registered here, as a manifest holds them."""
    known = {(entry.kind, entry.name): entry.results_version for kind in Kind for entry in registry.entries(kind)}
    parts = registered_parts(configuration)
    return {"core": RESULTS_VERSION, **{part.key: known.get((part.kind, part.name), 1) for part in parts}}


def chain_configuration(defense, parameters, depends_on=tuple(CHAIN)):
    """The configuration of a defense as a measure's cell has it; one that is not registered here is a rule."""
    try:
        whole = chain.parse(defense).check(parameters)
    except NotRegisteredError:
        plain = {"name": "plain", "parameters": {}}
        whole = {"transport": plain, "preaggregations": [], "rule": {"name": defense, "parameters": parameters}}
    return restrict_defense(whole, depends_on)


def make_record(measure, metrics, *, facts=None, history=(), defense="fedavg", seed=0, task="digits-mlp", **fields):
    """A record of any measure; `fields` may hold an attack, a deviation's parameters, parameters by kind,
    labels, sweep, and fields of a record.
    """
    parameters, labels = fields.pop("parameters", {}), fields.pop("labels", {})
    names = {"task": task, "measure": measure}
    names |= {kind: fields.pop(kind) for kind in ("attack", "privacy-attack") if kind in fields}
    entry = registry.find(Kind.MEASURE, measure)
    own = entry.check(parameters.get("measure", {})) if entry else parameters.get("measure", {})
    configuration = {
        kind: {"name": name, "parameters": own if kind == "measure" else parameters.get(kind, {})}
        for kind, name in names.items()
    }
    depends_on = entry.target.depends_on if entry else tuple(CHAIN)
    configuration["defense"] = chain_configuration(defense, parameters.get("defense", {}), depends_on)
    names["defense"] = defense
    if deviation := fields.pop("deviation", None):
        transport = configuration["defense"]["transport"]["name"]
        configuration["deviation"] = {"name": transport, "parameters": deviation}
        names["deviation"] = ", ".join(f"{name} = {value}" for name, value in deviation.items())
    configuration["seed"] = seed
    if goals := fields.pop("goals", ()):
        configuration[GOALS] = list(goals)
    manifest = {"results": results_versions(configuration), "processor": "x"}
    made = {
        "id": cell_id(configuration),
        "suite": "own",
        "labels": names | labels,
        "configuration": configuration,
        "status": "done",
        "metrics": metrics,
        "facts": facts or {},
        "history": list(history),
        "manifest": manifest,
    }
    return Record(**(made | fields))


def label_flipping_goal(**parameters):
    """The goal of label flipping with these parameters, as the configuration of a cell without attackers names it."""
    return {"name": "label-flipping", "parameters": parameters}


def robustness_record(attack="none", defense="fedavg", seed=0, accuracy=0.9, success=0.0, **fields):
    """A record of robustness; without attackers, `success` is by chance, one number for all `goals` or one for each."""
    targeted = attack == "label-flipping"
    facts = {"targeted": targeted, "attackers": [7], "flags": [], **fields.pop("facts", {})}
    goals = fields.pop("goals", (label_flipping_goal(),) if attack == "none" else ())
    scored = len(goals) + targeted
    rates = [success] * scored if isinstance(success, float) else list(success)
    metrics = {
        "test_loss": 1 - accuracy,
        "accuracy": accuracy,
        "source_accuracy": accuracy if scored else None,
        "attack_success_rate": rates[0] if scored else None,
        "goal_source_accuracy": [accuracy] * scored,
        "goal_attack_success_rate": rates,
        "class_accuracy": [accuracy],
        "diverged": False,
        **fields.pop("metrics", {}),
    }
    fields.setdefault("history", [{"round": number, "accuracy": accuracy * number / 3} for number in (1, 2, 3)])
    names = {"attack": attack, "defense": defense, "seed": seed, "goals": goals}
    return make_record("robustness", metrics, facts=facts, **names, **fields)


CAUTIONS = {"colluding-participant": "a participant colludes"}


def membership_record(
    attack="loss-difference", defense="fedavg", seed=0, observation="submission", auc=0.5, rate=0.01, **fields
):
    """A record of membership inference with 100 members; `rate` of them are found."""
    parameters = {"observation": observation, **fields.pop("measure", {})}
    facts = {
        "adaptive": None if defense == "fedavg" else observation != "submission",
        "observation": f"the view called {observation}",
        "knows": ["server view"] + ["a participant's view"] * (observation == "colluding-participant"),
        "caution": CAUTIONS.get(observation, ""),
        "members": 100,
        "non_members": 100,
        "training": "1 epoch",
        "examples_each": 70.0,
        **fields.pop("facts", {}),
    }
    others = [metric.name for metric in registry.get(Kind.MEASURE, "membership").target.metrics]
    known = {"auc": auc, "auc_by_chance": 0.56, "tpr_at_fpr_0.01": rate, "accuracy": 0.9}
    metrics = dict.fromkeys(others) | known
    fields.setdefault("history", [{"fpr": x, "tpr": min(1.0, x + seed / 10)} for x in (0.0, 0.5, 1.0)])
    return make_record(
        *("membership", metrics),
        **{"privacy-attack": attack},
        labels={"measure": f"membership (observation = {observation})"},
        parameters={"measure": parameters},
        facts=facts,
        defense=defense,
        seed=seed,
        **fields,
    )


def reconstruction_record(defense="fedavg", seed=0, observation="submission", psnr=40.0, **fields):
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
    parameters = {"observation": observation, "groups": 1, **fields.pop("measure", {})}
    attack = fields.pop("attack", "analytic")
    return make_record(
        *("reconstruction", metrics),
        **{"privacy-attack": attack},
        parameters={"measure": parameters, **fields.pop("parameters", {})},
        facts=facts | fields.pop("facts", {}),
        defense=defense,
        seed=seed,
        **fields,
    )


def runtime_record(defense="fedavg", updates=10, seconds=0.01, seed=0, **fields):
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
    parameters = {"measure": {"updates": updates, **fields.pop("measure", {})}, **fields.pop("parameters", {})}
    fields.setdefault("facts", facts)
    return make_record(
        *("runtime", metrics), parameters=parameters, defense=defense, seed=seed, history=history, **fields
    )  # fmt: skip


def as_failed(finished, error="boom"):
    """The same cell, as it is written when it fails."""
    return finished.model_copy(
        update={"status": "failed", "error": error, "metrics": {}, "facts": {}, "history": [], "arrays": ""}
    )


def as_diverged(finished):
    """The same cell, with a loss that is not finite."""
    return finished.model_copy(update={"metrics": finished.metrics | {"test_loss": None, "diverged": True}})


def as_undefined(finished):
    """The same cell, with a rule that has no aggregate in any round for so many attackers."""
    reason = undefined_reason('rule "bulyan"', "f <= (n - 3)/4", 5, 20)
    return as_kept(finished, reason)


def as_kept(finished, reason):
    """The same cell, with a server that keeps its model in every round."""
    history = [item | {"kept_because": reason} for item in finished.history]
    facts = finished.facts | {"rounds_that_kept_the_model": len(history)}
    return finished.model_copy(update={"history": history, "facts": facts})


def as_sweep_value(single, kind, parameter, value, label):
    """The same cell as one value of a suite's sweep over a parameter of a kind."""
    chosen = single.configuration[kind]
    if kind == "defense":
        rule = chosen["rule"]
        changed = chosen | {"rule": rule | {"parameters": rule["parameters"] | {parameter: value}}}
    else:
        changed = chosen | {"parameters": chosen["parameters"] | {parameter: value}}
    configuration = single.configuration | {kind: changed}
    return single.model_copy(
        update={
            "id": cell_id(configuration),
            "configuration": configuration,
            "labels": single.labels | {kind: f"{label} ({parameter} = {value})"},
            "sweep": {**single.sweep, kind: {"parameter": parameter, "value": value, "label": label}},
        }
    )


def records_of_three_seeds(make_one=robustness_record, **fields):
    """Three seeds; defenses wander a little apart from seed to seed, or there would be nothing to test by."""
    accuracy = fields.pop("accuracy", 0.9)
    wander = [0, 0.0003, -0.0003] if fields.get("defense") == "median" else [0, 0, 0]
    return [make_one(seed=seed, accuracy=accuracy + 0.01 * seed + wander[seed], **fields) for seed in range(3)]


WHOLE = [
    *records_of_three_seeds(),
    *records_of_three_seeds(defense="median", accuracy=0.88),
    *records_of_three_seeds(attack="gaussian-noise", accuracy=0.4),
    *records_of_three_seeds(attack="gaussian-noise", defense="median", accuracy=0.85),
    *records_of_three_seeds(attack="noise-control", accuracy=0.3),
    *records_of_three_seeds(attack="noise-control", defense="median", accuracy=0.87),
    *records_of_three_seeds(attack="label-flipping", accuracy=0.8, success=0.5),
    *records_of_three_seeds(attack="label-flipping", defense="median", accuracy=0.8, success=0.1),
]
"""Two defenses, three attacks and none, three seeds."""


def records_with_labels(records, **labels):
    """Those with these labels and, as `seed`, this seed."""
    seed = labels.pop("seed", None)
    return [each for each in records if labels.items() <= each.labels.items() and seed in (None, each.seed)]


def change_records_with_labels(records, change, **labels):
    """The records, those with these labels changed."""
    hit = records_with_labels(records, **labels)
    assert hit
    return [change(each) if each in hit else each for each in records]


def find_table(board, name):
    """A table of a board by its name."""
    names = [each.name for each in board.tables]
    assert name in names, names
    return board.tables[names.index(name)]


def find_cell(table, row, column):
    """A place of a table by the names of its row and column."""
    names, rows = [each.name for each in table.columns], [each.label for each in table.rows]
    assert column in names, names
    assert row in rows, rows
    return table.rows[rows.index(row)].cells[names.index(column)]


def no_arrays(_record):
    """Of records that have none."""
    return {}

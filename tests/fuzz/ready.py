"""Imports that forked processes share, so that no case waits for them."""

import os
import sys


def import_everything() -> None:
    """Import everything that commands import on their way, and use one thread."""
    sys.dont_write_bytecode = True
    # Forked processes and threads do not go together; libraries look at these when they are imported.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.font_manager
    import matplotlib.pyplot  # noqa: F401
    import pandas  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn  # noqa: F401
    import torch
    import torchmetrics  # noqa: F401

    from fflbench import aggregation, cli, list_plugins_and_datasets, registry, run_and_report  # noqa: F401
    from fflbench.execution import run_cell, run_suite, verify_leaderboard  # noqa: F401
    from fflbench.federation import rounds  # noqa: F401
    from fflbench.privacy import gradient_file  # noqa: F401
    from fflbench.records import collection, manifest  # noqa: F401
    from fflbench.report import leaderboard, show_record  # noqa: F401

    torch.set_num_threads(1)
    registry.load_installed()
    manifest.source_commit()

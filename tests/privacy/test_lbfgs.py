import pytest
import torch
from scipy.optimize import minimize, rosen, rosen_der

from fflbench.privacy.lbfgs import minimise


def rosenbrock(z):
    values = (100 * (z[:, 1:] - z[:, :-1] ** 2) ** 2 + (1 - z[:, :-1]) ** 2).sum(1)
    return values


def objective_with_gradients(function):
    def objective(z, rows):
        z = z.detach().requires_grad_()
        values = function(z)
        return values.detach(), torch.autograd.grad(values.sum(), z)[0]

    return objective


def test_many_problems_reach_their_minima_as_scipy_does():
    start = torch.tensor([[-1.2, 1.0, 0.5], [0.0, 0.0, 0.0], [2.0, 2.0, 2.0]], dtype=torch.float64)
    found, values = minimise(objective_with_gradients(rosenbrock), start, 200)
    torch.testing.assert_close(found, torch.ones_like(found), atol=1e-5, rtol=0)
    for place, row in enumerate(start.numpy()):
        wanted = minimize(rosen, row, jac=rosen_der, method="L-BFGS-B")
        assert values[place] == pytest.approx(wanted.fun, abs=1e-8)


def test_a_row_walks_by_itself_whatever_its_neighbours_do():
    start = torch.tensor([[-1.2, 1.0], [30.0, -20.0]], dtype=torch.float64)
    together, _ = minimise(objective_with_gradients(rosenbrock), start, 40)
    alone, _ = minimise(objective_with_gradients(rosenbrock), start[:1], 40)
    torch.testing.assert_close(together[:1], alone)


def test_it_never_gets_worse():
    torch.manual_seed(0)
    start = torch.randn(20, 5, dtype=torch.float64)
    before = rosenbrock(start)
    for steps in (1, 3, 10):
        _, values = minimise(objective_with_gradients(rosenbrock), start, steps)
        assert (values <= before).all()
        before = values

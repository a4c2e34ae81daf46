"""Log-signatures in PyTorch: against NumPy's, under every transformation of PyTorch, and without JAX."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import neuralrde
import neuralrde.torch as nt
from neuralrde.paths import cuts_by_count
from neuralrde.torch import tensor, windows
from neuralrde.torch.signatory import logsignature_channels

BASES = ("words", "brackets", "expanded")
# Every way to say which windows, for two paths of nine points.
WINDOWS = {
    "step": {"step": 4},
    "cuts": {"cuts": np.array([0, 3, 3, 8])},
    "cuts of each": {"cuts": np.array([[0, 4, 8], [0, 1, 8]])},
    "apart": {"starts": np.array([0, 2]), "ends": np.array([4, 8])},
    "thinned": {"starts": np.array([0, 2]), "ends": np.array([4, 8]), "dilation": 2},
    "scales": {"step": 2, "scales": (1, 3)},
}


def paths(*, dtype=torch.float64, grad=False, shape=(2, 9, 3)):
    made = np.random.default_rng(0).normal(size=shape)
    return torch.from_numpy(made).to(dtype).requires_grad_(grad)


def loss(path):
    return nt.log_signatures(path, 3, step=4).square().sum()


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("how", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_equals_numpys(dtype, how, basis):
    path = paths(dtype=dtype)
    for depth in (1, 2, 3, 4):
        expected = neuralrde.log_signatures(path.numpy(), depth, basis=basis, **how)
        found = nt.log_signatures(path, depth, basis=basis, **how)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.numpy(), expected)  # the same kernel


def test_scales_may_have_depths_of_their_own_and_points_any_form():
    path = paths()
    expected = neuralrde.log_signatures(path.numpy(), (3, 2), step=2, scales=(1, 2))
    np.testing.assert_array_equal(nt.log_signatures(path, (3, 2), step=2, scales=(1, 2)), expected)
    cuts = [0, 3, 8]
    for given in (cuts, np.array(cuts, np.int32), torch.tensor(cuts, dtype=torch.int32)):
        np.testing.assert_array_equal(
            nt.log_signatures(path, 2, cuts=given), neuralrde.log_signatures(path.numpy(), 2, cuts=np.array(cuts))
        )


@pytest.mark.parametrize("shape", [(1, 3), (4, 1), (0, 9, 3), (2, 3, 9, 2)])
def test_shapes(shape):
    path = paths(shape=shape, grad=True)
    found = nt.log_signatures(path, 3, step=4)
    assert found.shape == (
        *shape[:-2],
        len(cuts_by_count(shape[-2], 4)) - 1,
        logsignature_channels(shape[-1], 3),
    )
    found.sum().backward()
    assert path.grad is not None
    assert path.grad.shape == shape


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single_and_comes_back(dtype):
    path = paths(dtype=dtype, grad=True)
    found = nt.log_signatures(path, 2, step=4)
    torch.testing.assert_close(found, nt.log_signatures(path.detach().float(), 2, step=4).to(dtype))
    found.sum().backward()
    assert path.grad is not None
    assert path.grad.dtype == dtype


def test_a_path_that_is_not_contiguous():
    path = paths(shape=(3, 9, 2)).permute(2, 1, 0)
    np.testing.assert_array_equal(nt.log_signatures(path, 3, step=4), nt.log_signatures(path.contiguous(), 3, step=4))


@pytest.mark.parametrize(("depth", "basis"), [(1, "words"), (2, "expanded"), (3, "brackets"), (4, "words")])
@pytest.mark.parametrize("how", WINDOWS.values(), ids=WINDOWS)
def test_first_derivatives(how, depth, basis):
    assert gradcheck(lambda path: nt.log_signatures(path, depth, basis=basis, **how), paths(grad=True))


@pytest.mark.parametrize(("name", "depth", "basis"), [
    ("step", 2, "words"), ("cuts", 3, "brackets"), ("cuts of each", 2, "expanded"), ("thinned", 3, "words"),
    ("scales", 2, "words"),
])  # fmt: skip
@pytest.mark.long
def test_second_derivatives(name, depth, basis):
    how, path = WINDOWS[name], paths(grad=True, shape=(2, 9, 2))
    assert gradgradcheck(lambda path: nt.log_signatures(path, depth, basis=basis, **how), path)


@pytest.mark.parametrize("how", WINDOWS.values(), ids=WINDOWS)
def test_the_form_without_the_kernel(monkeypatch, how):
    path = paths(grad=True)
    for depth in (1, 2, 3, 4):
        expected = nt.log_signatures(path, depth, basis="brackets", **how)
        with monkeypatch.context() as patch:
            patch.setattr(windows, "_KERNEL", False)
            found = nt.log_signatures(path, depth, basis="brackets", **how)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)  # float64 sums
        (theirs,), (ours,) = (torch.autograd.grad(one.square().sum(), path) for one in (found, expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_cuts_may_lie_in_memory_in_any_order():
    path, cuts = paths(), torch.tensor([[0, 4, 8], [0, 1, 8]])
    expected = nt.log_signatures(path, 2, cuts=cuts)
    torch.testing.assert_close(nt.log_signatures(path, 2, cuts=cuts.T.contiguous().T), expected, rtol=0, atol=0)
    once = nt.log_signatures(path, 2, cuts=cuts[:1].expand(2, -1))
    torch.testing.assert_close(once, nt.log_signatures(path, 2, cuts=cuts[0]), rtol=0, atol=0)


def test_vmap_and_torch_func():
    path = paths()
    f = lambda path: nt.log_signatures(path, 3, step=4)
    torch.testing.assert_close(torch.func.vmap(f)(path), f(path), rtol=0, atol=0)
    torch.testing.assert_close(torch.func.vmap(f, in_dims=1)(path.transpose(0, 1)), f(path), rtol=0, atol=0)
    each = lambda path, cuts: nt.log_signatures(path, 2, cuts=cuts)
    cuts = torch.tensor([[0, 4, 8], [0, 1, 8]])
    torch.testing.assert_close(torch.func.vmap(each)(path, cuts), each(path, cuts), rtol=0, atol=0)
    expected = torch.stack([torch.func.grad(loss)(one) for one in path])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(path), expected, rtol=1e-12, atol=1e-12)
    hessian = torch.func.jacrev(torch.func.jacrev(loss))(path[0])
    by_autograd = torch.autograd.functional.hessian(loss, path[0])
    torch.testing.assert_close(hessian, by_autograd, rtol=1e-9, atol=1e-9)  # one of them by another order of sums


# In processes of their own: the tests' checks of types and shapes (`conftest.py`) are not for compilers.
CHECKED = """
import torch
import neuralrde.torch as nt
operator = torch.ops.neuralrde.log_signatures.default
gradient = torch.ops.neuralrde.log_signatures_gradient.default
path = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
for basis in ("words", "brackets", "expanded"):
    how = (False, 1, [3], [1], basis)
    found = nt.log_signatures(path, 3, step=4, basis=basis)
    torch.library.opcheck(operator, (path, None, 4, *how))
    torch.library.opcheck(operator, (path, torch.tensor([[0, 4, 8], [0, 1, 8]]), 0, *how))
    torch.library.opcheck(gradient, (path, torch.randn_like(found, requires_grad=True), None, 4, *how))
"""
COMPILED = """
import torch
import neuralrde.torch as nt
path = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
module = torch.nn.Sequential(nt.LogSignatureWindows(depth=2, step=4), torch.nn.Linear(6, 2, dtype=torch.float64))
f = lambda path: torch.tanh(module(path))
compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
torch.testing.assert_close(compiled(path), f(path))
ours, theirs = (torch.autograd.grad(one(path).sum(), path)[0] for one in (f, compiled))
torch.testing.assert_close(ours, theirs)
longer = torch.randn(2, 30, 3, dtype=torch.float64)
torch.testing.assert_close(compiled(longer), f(longer))  # another length: a symbol now
cuts = torch.tensor([0, 3, 8])
by_cuts = torch.compile(lambda path, cuts: nt.log_signatures(path, 3, cuts=cuts), fullgraph=True, backend="aot_eager")
torch.testing.assert_close(by_cuts(path, cuts), nt.log_signatures(path, 3, cuts=cuts))
"""
EXPORTED = """
import torch
import neuralrde.torch as nt
path = torch.randn(2, 9, 3)
module = torch.nn.Sequential(nt.LogSignatureWindows(depth=2, step=4), torch.nn.Linear(6, 2))
dimensions = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", min=6, max=4000)}
exported = torch.export.export(module, (path,), dynamic_shapes=({**dimensions},))
assert "neuralrde.log_signatures" in str(exported.graph)
longer = torch.randn(5, 30, 3)
torch.testing.assert_close(exported.module()(longer), module(longer))
"""


@pytest.mark.long
@pytest.mark.parametrize("code", [CHECKED, COMPILED, EXPORTED], ids=["opcheck", "compile", "export"])
def test_tracers_know_the_operators(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.long
def test_jax_is_not_imported():
    code = "import sys; sys.modules['jax'] = None; import neuralrde.torch; print(sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"jaxlib", "equinox", "pandas", "sklearn"} & set(eval(run.stdout))


def test_a_nan_stays_in_its_window():
    path = paths()
    path[0, 2, 1] = torch.nan
    found = nt.log_signatures(path, 2, step=4)
    assert found[0, 0].isnan().any()
    assert found[0, 1].isfinite().all()
    assert found[1].isfinite().all()


def test_signatures_are_those_of_numpy():
    path = paths(grad=True)
    expected = neuralrde.signature(path.detach().numpy(), 4)
    # Ours is the exponential of the log-signature, NumPy's a product of exponentials: float64 sums.
    np.testing.assert_allclose(nt.signature(path, 4).detach(), expected, rtol=1e-10, atol=1e-10)
    assert gradcheck(lambda path: nt.signature(path, 3), path)
    windows = nt.signatures(path, 3, step=4).detach()
    np.testing.assert_allclose(
        windows[:, 1], neuralrde.signature(path.detach().numpy()[:, 4:], 3), rtol=1e-10, atol=1e-10
    )


def test_modules():
    path = paths()
    torch.testing.assert_close(nt.LogSignature(3)(path), nt.log_signature(path, 3))
    module = nt.LogSignatureWindows(2, step=4, scales=(1, 2), basis="brackets")
    torch.testing.assert_close(module(path), nt.log_signatures(path, 2, step=4, scales=(1, 2), basis="brackets"))
    assert str(module) == "LogSignatureWindows(depth=2, step=4, scales=(1, 2), basis='brackets')"


@pytest.mark.parametrize(("given", "message"), [
    ({"step": 4, "cuts": [0, 8]}, "exactly one of"),
    ({}, "exactly one of"),
    ({"step": 0}, "whole number from 1"),
    ({"cuts": [0, 9]}, "indices between 0 and 8"),
    ({"cuts": [0.0, 8.0]}, "whole numbers"),
    ({"starts": [3], "ends": [1]}, "not before their starts"),
    ({"starts": [0], "ends": [4], "scales": (1, 2)}, "follow each other"),
    ({"step": 4, "basis": "word"}, "expected one of 'words'"),
    ({"step": 4, "depth": 0}, "whole number of at least 1"),
])  # fmt: skip
def test_mistakes(given, message):
    depth = given.pop("depth", 2)
    with pytest.raises((TypeError, ValueError), match=message):
        nt.log_signatures(paths(), depth, **given)


def test_paths_that_are_none():
    with pytest.raises(TypeError, match="floating-point"):
        nt.log_signature(torch.ones(4, 2, dtype=torch.int64), 2)
    with pytest.raises(ValueError, match="at least one point"):
        nt.log_signature(torch.ones(4), 2)


def test_the_tensor_algebra():
    """exp and log undo each other, a path and its reverse cancel, the running product ends with the whole."""
    path = paths(shape=(5, 9, 3))
    levels = tensor.signatures_of_increments(path.diff(dim=-2), 4)
    whole, running = tensor.joined(levels), tensor.running(levels)
    back = tensor.exponential(tensor.logarithm(whole))
    for a, b, c, d in zip(whole, back, running, tensor.chen(whole, tensor.inverse(whole)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(a, c[:, -1], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(d, torch.zeros_like(d), rtol=0, atol=1e-9)  # large terms cancel

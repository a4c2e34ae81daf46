"""What each of JAX's primitives is in ONNX: a table from its name to a function that writes the nodes.

A function takes the graph, the equation and the names of its inputs, and returns the names of its outputs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax.core import ShapedArray

Names = list[str]
# ONNX slices up to the end with this.
_END = 2**62


def _direct(operator: str) -> Callable:
    return lambda graph, eqn, names: [graph.node(operator, names)]


def _square(graph: Any, eqn: Any, names: Names) -> Names:
    return [graph.node("Mul", [names[0], names[0]])]


def _integer_pow(graph: Any, eqn: Any, names: Names) -> Names:
    power = eqn.params["y"]
    found = names[0]
    for _ in range(abs(power) - 1):
        found = graph.node("Mul", [found, names[0]])
    return [graph.node("Reciprocal", [found]) if power < 0 else found] if power else _refused(graph, eqn, names)


def _expm1(graph: Any, eqn: Any, names: Names) -> Names:
    """tanh(x / 2) (exp(x) + 1), which loses nothing near zero, where exp(x) - 1 would."""
    half, one = (graph.constant(np.asarray(value, _type(eqn.invars[0]))) for value in (0.5, 1.0))
    tanh = graph.node("Tanh", [graph.node("Mul", [names[0], half])])
    return [graph.node("Mul", [tanh, graph.node("Add", [graph.node("Exp", names), one])])]


def _log1p(graph: Any, eqn: Any, names: Names) -> Names:
    """log(u) x / (u - 1) with u = 1 + x as it is rounded, and x where that is 1: right near zero, too."""
    one = graph.constant(np.asarray(1.0, _type(eqn.invars[0])))
    u = graph.node("Add", [names[0], one])
    ratio = graph.node("Div", [names[0], graph.node("Sub", [u, one])])
    usual = graph.node("Mul", [graph.node("Log", [u]), ratio])
    return [graph.node("Where", [graph.node("Equal", [u, one]), names[0], usual])]


def _is_finite(graph: Any, eqn: Any, names: Names) -> Names:
    wrong = graph.node("Or", [graph.node("IsNaN", names), graph.node("IsInf", names)])
    return [graph.node("Not", [wrong])]


def _select(graph: Any, eqn: Any, names: Names) -> Names:
    if len(names) != 3 or _type(eqn.invars[0]).kind != "b":
        return _refused(graph, eqn, names)
    return [graph.node("Where", [names[0], names[2], names[1]])]


def _convert(graph: Any, eqn: Any, names: Names) -> Names:
    return [graph.cast(names[0], eqn.params["new_dtype"])]


def _broadcast(graph: Any, eqn: Any, names: Names) -> Names:
    shape, kept = eqn.params["shape"], [int(axis) for axis in eqn.params["broadcast_dimensions"]]
    found = names[0]
    if new := [axis for axis in range(len(shape)) if axis not in kept]:
        found = graph.node("Unsqueeze", [found, graph.constant(np.array(new, np.int64))])
    before = eqn.invars[0].aval.shape
    grown = new or any(one != shape[axis] for one, axis in zip(before, kept, strict=True))
    return [graph.node("Expand", [found, graph.shape(shape)]) if grown else found]


def _reshape(graph: Any, eqn: Any, names: Names) -> Names:
    return [graph.node("Reshape", [names[0], graph.shape(eqn.params["new_sizes"])], allowzero=1)]


def _squeeze(graph: Any, eqn: Any, names: Names) -> Names:
    return [graph.node("Squeeze", [names[0], graph.axes(eqn.params["dimensions"])])]


def _transpose(graph: Any, eqn: Any, names: Names) -> Names:
    return [transposed(graph, names[0], eqn.params["permutation"])]


def transposed(graph: Any, name: str, order: Any) -> str:
    order = [int(axis) for axis in order]
    return name if order == sorted(order) else graph.node("Transpose", [name], perm=order)


def _concatenate(graph: Any, eqn: Any, names: Names) -> Names:
    return [graph.node("Concat", names, axis=int(eqn.params["dimension"]))]


def _stack(graph: Any, eqn: Any, names: Names) -> Names:
    axis = int(eqn.params["axis"])
    return [graph.node("Concat", [graph.node("Unsqueeze", [one, graph.axes([axis])]) for one in names], axis=axis)]


def _tile(graph: Any, eqn: Any, names: Names) -> Names:
    return [graph.node("Tile", [names[0], graph.axes(eqn.params["reps"])])]


def _split(graph: Any, eqn: Any, names: Names) -> Names:
    sizes = graph.axes(eqn.params["sizes"])
    return graph.nodes("Split", [names[0], sizes], len(eqn.outvars), axis=int(eqn.params["axis"]))


def _slice(graph: Any, eqn: Any, names: Names) -> Names:
    shape, first = eqn.invars[0].aval.shape, eqn.params["start_indices"]
    last, strides = eqn.params["limit_indices"], eqn.params["strides"] or [1] * len(shape)
    ends = [_END if one == size else one for one, size in zip(last, shape, strict=True)]
    return [graph.node("Slice", [names[0], *(map(graph.axes, (first, ends, range(len(shape)), strides)))])]


def _pad(graph: Any, eqn: Any, names: Names) -> Names:
    config = eqn.params["padding_config"]
    if any(inside or low < 0 or high < 0 for low, high, inside in config):
        return _refused(graph, eqn, names)
    sizes = graph.axes([low for low, _, _ in config] + [high for _, high, _ in config])
    return [graph.node("Pad", [names[0], sizes, names[1]])]


def _iota(graph: Any, eqn: Any, names: Names) -> Names:
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    if not all(isinstance(size, int) for size in shape):
        return _refused(graph, eqn, names)
    numbers = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return [graph.constant(np.broadcast_to(numbers, shape).astype(eqn.params["dtype"]))]


def _reduce(operator: str) -> Callable:
    return lambda graph, eqn, names: [
        graph.node(operator, [names[0], graph.axes(eqn.params["axes"])], keepdims=0) if eqn.params["axes"] else names[0]
    ]


def _reduce_truth(operator: str) -> Callable:
    def write(graph: Any, eqn: Any, names: Names) -> Names:
        whole = graph.cast(names[0], np.dtype(np.int32))
        return [graph.cast(_reduce(operator)(graph, eqn, [whole])[0], np.dtype(bool))]

    return write


def _dot_general(graph: Any, eqn: Any, names: Names) -> Names:
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    ranks = [len(one.aval.shape) for one in eqn.invars]
    if not left_batch and ranks[1] == 2 and tuple(left) == (ranks[0] - 1,) and tuple(right) == (0,) and ranks[0] > 1:
        return [graph.node("MatMul", names)]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    a, b = [""] * ranks[0], [""] * ranks[1]
    for one, other in [*zip(left_batch, right_batch, strict=True), *zip(left, right, strict=True)]:
        a[one] = b[other] = next(letters)
    free = []
    for axes in (a, b):
        for k, letter in enumerate(axes):
            if not letter:
                axes[k] = next(letters)
                free.append(axes[k])
    shared = "".join(a[axis] for axis in left_batch)
    return [graph.node("Einsum", names, equation=f"{''.join(a)},{''.join(b)}->{shared}{''.join(free)}")]


def _gather(graph: Any, eqn: Any, names: Names) -> Names:
    """`array[..., indices, ...]`: whole slices by their numbers along one axis."""
    numbers, operand, indices = eqn.params["dimension_numbers"], *(one.aval for one in eqn.invars)
    rank, collapsed = len(operand.shape), tuple(map(int, numbers.collapsed_slice_dims))
    whole = all(k in collapsed or one == operand.shape[k] for k, one in enumerate(eqn.params["slice_sizes"]))
    mapped = tuple(map(int, numbers.start_index_map))
    if len(collapsed) != 1 or mapped != collapsed or not whole or numbers.operand_batching_dims:
        return _refused(graph, eqn, names)
    axis, places = collapsed[0], len(indices.shape) - 1
    found = graph.node("Gather", [names[0], graph.node("Squeeze", [names[1], graph.axes([-1])])], axis=axis)
    # ONNX puts the indices' axes where the axis was, JAX where it says.
    rest = iter([k for k in range(rank - 1 + places) if not axis <= k < axis + places])
    between, offsets = iter(range(axis, axis + places)), [int(k) for k in numbers.offset_dims]
    return [transposed(graph, found, [next(rest if k in offsets else between) for k in range(rank - 1 + places)])]


def _scatter_add(graph: Any, eqn: Any, names: Names) -> Names:
    """`array.at[..., indices, ...].add(updates)` along one axis, as a product with zeros and ones."""
    numbers, (operand, indices, _) = eqn.params["dimension_numbers"], (one.aval for one in eqn.invars)
    inserted = tuple(map(int, numbers.inserted_window_dims))
    mapped = tuple(map(int, numbers.scatter_dims_to_operand_dims))
    one_axis = len(inserted) == 1 and mapped == inserted and len(indices.shape) == 2
    if not one_axis or numbers.operand_batching_dims or not isinstance(operand.shape[inserted[0]], int):
        return _refused(graph, eqn, names)
    axis, rank = inserted[0], len(operand.shape)
    window = [int(k) for k in numbers.update_window_dims]
    [place] = [k for k in range(rank) if k not in window]
    depth = graph.constant(np.array(operand.shape[axis], np.int64))
    zero_one = graph.constant(np.array([0, 1], operand.dtype))
    places = graph.cast(graph.node("Squeeze", [names[1], graph.axes([-1])]), np.dtype(np.int64))
    chosen = graph.node("OneHot", [places, depth, zero_one], axis=-1)
    added = graph.node("MatMul", [transposed(graph, names[2], [*window, place]), chosen])
    others = [k for k in range(rank) if k != axis]
    return [graph.node("Add", [names[0], transposed(graph, added, np.argsort([*others, axis]))])]


def _clamp(graph: Any, eqn: Any, names: Names) -> Names:
    return [graph.node("Min", [graph.node("Max", [names[1], names[0]]), names[2]])]


def _refused(graph: Any, eqn: Any, names: Names) -> Names:
    raise unsupported(f"a form of JAX's primitive {eqn.primitive.name!r} ({_brief(eqn)})")


def unsupported(what: str) -> ValueError:
    return ValueError(
        f"Got a model with {what}, for which neuralrde knows no operator of ONNX; expected one of our models with a "
        "solver of fixed steps. Nothing was written. Take the format stablehlo, which takes every model."
    )


def _brief(eqn: Any) -> str:
    return ", ".join(one.aval.str_short() for one in eqn.invars if isinstance(one.aval, ShapedArray))


def _type(variable: Any) -> np.dtype:
    return np.dtype(variable.aval.dtype)


OPERATORS: dict[str, Callable[[Any, Any, Names], Names]] = {
    **{name: _direct(operator) for name, operator in {
        "abs": "Abs", "add": "Add", "add_any": "Add", "and": "And", "ceil": "Ceil", "copy": "Identity",
        "copy_p": "Identity", "cos": "Cos", "div": "Div", "eq": "Equal", "erf": "Erf", "exp": "Exp", "floor": "Floor",
        "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "log": "Log", "logistic": "Sigmoid",
        "lt": "Less", "max": "Max", "min": "Min", "mul": "Mul", "neg": "Neg", "not": "Not", "or": "Or", "pow": "Pow",
        "sign": "Sign", "sin": "Sin", "sqrt": "Sqrt", "stop_gradient": "Identity", "sub": "Sub", "tanh": "Tanh",
    }.items()},
    **{name: _reduce(f"Reduce{name[7:].title()}") for name in ("reduce_sum", "reduce_max", "reduce_min")},
    "broadcast_in_dim": _broadcast,
    "clamp": _clamp,
    "concatenate": _concatenate,
    "convert_element_type": _convert,
    "dot_general": _dot_general,
    "exp2": lambda graph, eqn, names: [graph.node("Pow", [graph.constant(np.array(2, _type(eqn.invars[0]))), *names])],
    "expm1": _expm1,
    "gather": _gather,
    "integer_pow": _integer_pow,
    "iota": _iota,
    "is_finite": _is_finite,
    "log1p": _log1p,
    "ne": lambda graph, eqn, names: [graph.node("Not", [graph.node("Equal", names)])],
    "optimization_barrier": lambda graph, eqn, names: names,
    "pad": _pad,
    "reduce_and": _reduce_truth("ReduceMin"),
    "reduce_or": _reduce_truth("ReduceMax"),
    "reshape": _reshape,
    "rsqrt": lambda graph, eqn, names: [graph.node("Reciprocal", [graph.node("Sqrt", names)])],
    "scatter-add": _scatter_add,
    "select_n": _select,
    "slice": _slice,
    "split": _split,
    "square": _square,
    "squeeze": _squeeze,
    "stack": _stack,
    "tile": _tile,
    "transpose": _transpose,
}  # fmt: skip

"""A function of JAX as an ONNX model: its equations, one after the other, become nodes.

The function is traced for a batch whose size stays open. Calls are written out, loops of a fixed length are unrolled,
because members and blocks are few, and loops whose length depends on the data become ONNX loops. The table `OPERATORS`
has the rest: from the graph, an equation's parameters, the shapes of its inputs and their names to the names of its
outputs; None stands for a form that nobody has needed yet.

jax2onnx 0.17.1 was tried instead. Five of the models that the tests export failed, in their loops and derivatives, and
`expm1` and `log1p` lost their digits near zero.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import numpy as np
import onnx
from onnx import helper, numpy_helper

from .._types import Options

Names = list[str]
Params = Options
Shapes = list[Any]
"""Of JAX's abstract values, which have a shape and a type."""
# ONNX slices up to the end with this.
_END = 2**62
# Of 2022: old enough for the runtimes that people have, and reductions take their axes as inputs.
_OPSET, _IR = 18, 9
# Where an equation that is a call keeps what it calls.
_CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat2")


def onnx_model(
    function: Callable, example: Sequence[np.ndarray], *, inputs: Names, outputs: Names, name: str
) -> onnx.ModelProto:
    """The model, with the names of its inputs and outputs; the first axis of each is a batch of any size.

    Args:
        function: of arrays, to a tuple of arrays.
        example: arrays as the function takes them.
        inputs, outputs: what they are called.
        name: of the graph.
    """
    batch = jax.export.symbolic_shape("batch")[0]
    shapes = [jax.ShapeDtypeStruct((batch, *array.shape[1:]), array.dtype) for array in example]
    closed = jax.jit(function).trace(*shapes).jaxpr
    graph = Graph(batch, inputs[0])
    # An output may be an input, or the same as another: each needs a name of its own.
    for one, output in zip(graph.call(closed, inputs), outputs, strict=True):
        graph.written.append(helper.make_node("Identity", [one], [output]))
    described = lambda names, variables: [
        helper.make_tensor_value_info(
            name, _kind(one.aval.dtype), [size if isinstance(size, int) else "batch" for size in one.aval.shape]
        )
        for name, one in zip(names, variables, strict=True)
    ]
    taken, given = described(inputs, closed.jaxpr.invars), described(outputs, closed.jaxpr.outvars)
    whole = helper.make_graph(graph.written, name, taken, given, list(graph.constants.values()))
    opset = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(whole, opset_imports=opset, ir_version=_IR, producer_name="neuralrde")
    onnx.checker.check_model(model, full_check=True)
    return model


def unsupported(what: str) -> ValueError:
    return ValueError(
        f"Got a model with {what}, for which neuralrde knows no operator of ONNX; expected one of our models with a "
        "solver of fixed steps. Nothing was written. Take the format stablehlo, which takes every model."
    )


def _kind(dtype: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


class Graph:
    """Nodes that have been written so far, and constants."""

    def __init__(self, batch: Any, first: str):
        self.size, self._names = batch, (f"v{number}" for number in itertools.count(1))
        self.written: list[Any] = []
        self.constants: dict[Any, onnx.TensorProto] = {}
        self.batch = self.node("Shape", first, start=0, end=1)

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        return self.nodes(operator, inputs, 1, **attributes)[0]

    def nodes(self, operator: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> Names:
        names = list(itertools.islice(self._names, outputs))
        self.written.append(helper.make_node(operator, inputs, names, **attributes))
        return names

    def constant(self, value: Any, dtype: Any = None) -> str:
        array = np.asarray(value, dtype, order="C")
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = numpy_helper.from_array(array, f"c{len(self.constants)}")
        return self.constants[key].name

    def axes(self, numbers: Any) -> str:
        return self.constant([int(one) for one in numbers], np.int64)

    def shape(self, sizes: Any) -> str:
        """A shape as a tensor, in which the size of the batch is read from the first input."""
        if all(isinstance(size, int | np.integer) for size in sizes):
            return self.axes(sizes)
        parts = []
        for size in sizes:
            if not isinstance(size, int | np.integer) and size != self.size:
                raise unsupported(f"an array of the size {size}, where `batch` is the number of streams")
            parts.append(self.axes([size]) if isinstance(size, int | np.integer) else self.batch)
        return self.node("Concat", *parts, axis=0)

    def cast(self, name: str, to: Any) -> str:
        return self.node("Cast", name, to=_kind(to))

    def transposed(self, name: str, order: Any) -> str:
        order = [int(axis) for axis in order]
        return name if order == sorted(order) else self.node("Transpose", name, perm=order)

    def stacked(self, names: Sequence[str], axis: int = 0) -> str:
        return self.node("Concat", *(self.node("Unsqueeze", name, self.axes([axis])) for name in names), axis=axis)

    def call(self, called: Any, names: Names) -> Names:
        """Write all equations of a function; the names of what comes out."""
        # A closed function has its constants with it.
        jaxpr, consts = (called.jaxpr, called.consts) if hasattr(called, "consts") else (called, ())
        known: dict[Any, str] = dict(zip(jaxpr.constvars, map(self.constant, consts), strict=True))
        known.update(zip(jaxpr.invars, names, strict=True))

        # Literals have a value.
        read: Any = lambda one: self.constant(one.val, one.aval.dtype) if hasattr(one, "val") else known[one]
        for eqn in jaxpr.eqns:
            inputs, primitive, params = [read(one) for one in eqn.invars], eqn.primitive.name, eqn.params
            if primitive in OPERATORS:
                shapes: Shapes = [one.aval for one in eqn.invars]
                found = OPERATORS[primitive](self, params, shapes, *inputs)
                if found is None:
                    briefly = ", ".join(shape.str_short() for shape in shapes)
                    raise unsupported(f"a form of JAX's primitive {primitive!r} ({briefly})")
            elif primitive in _CALLS:
                found = self.call(next(params[name] for name in _CALLED if name in params), inputs)
            elif primitive == "scan":
                found = self.scan(params, inputs)
            elif primitive == "while":
                found = self.loop(params, inputs, [one.aval for one in eqn.outvars])
            else:
                raise unsupported(f"JAX's primitive {primitive!r}")
            known.update(zip(eqn.outvars, [found] if isinstance(found, str) else found, strict=True))
        return [read(one) for one in jaxpr.outvars]

    def scan(self, params: Params, names: Names) -> Names:
        """Unrolled: each pass takes its slice of what is scanned over, and all slices are put together."""
        first, length = params["num_consts"], params["length"]
        last = first + params["num_carry"]
        consts, carried, scanned = names[:first], names[first:last], names[last:]
        passes: list[Names] = [[] for _ in range(length)]
        for number in reversed(range(length)) if params["reverse"] else range(length):
            own = [self.node("Gather", one, self.constant(number, np.int64), axis=0) for one in scanned]
            found = self.call(params["jaxpr"], [*consts, *carried, *own])
            carried, passes[number] = found[: last - first], found[last - first :]
        return [*carried, *map(self.stacked, zip(*passes, strict=True))]

    def loop(self, params: Params, names: Names, results: Shapes) -> Names:
        """An ONNX loop. Its body sees the names outside of it, and says at its end whether to go on.

        Of a batch, each stream has a condition of its own: the loop goes on while any holds, and a stream whose
        condition does not stays as it is.
        """
        first = params["cond_nconsts"]
        last = first + params["body_nconsts"]
        of_condition, of_body, start = names[:first], names[first:last], names[last:]
        [rank] = [len(one.aval.shape) for one in params["cond_jaxpr"].jaxpr.outvars]

        def goes_on(names: Names) -> tuple[str, str]:
            """The condition, and whether it holds for any."""
            [holds] = self.call(params["cond_jaxpr"], [*of_condition, *names])
            return holds, _reduce_truth("ReduceMax")(self, {"axes": range(rank)}, [], holds) if rank else holds

        _, begins = goes_on(start)
        outside, self.written = self.written, []
        number, condition, *before = itertools.islice(self._names, 2 + len(start))
        after = self.call(params["body_jaxpr"], [*of_body, *before])
        if rank:  # with as many axes as what is chosen, the new ones at the end
            holds, _ = goes_on(before)
            chosen = [
                self.node("Unsqueeze", holds, self.axes(range(rank, len(one.shape))))
                if len(one.shape) > rank
                else holds
                for one in results
            ]
            after = [self.node("Where", *parts) for parts in zip(chosen, after, before, strict=True)]
        told = [self.node("Identity", one) for one in (goes_on(after)[1], *after)]
        kinds, truth = [_kind(one.dtype) for one in results], onnx.TensorProto.BOOL
        described = lambda names, *kinds: [
            helper.make_tensor_value_info(name, kind, [] if place < len(names) - len(results) else None)
            for place, (name, kind) in enumerate(zip(names, kinds, strict=True))
        ]
        body = helper.make_graph(
            self.written,
            f"body_{number}",
            described([number, condition, *before], onnx.TensorProto.INT64, truth, *kinds),
            described(told, truth, *kinds),
        )
        self.written = outside
        return self.nodes("Loop", ["", begins, *start], len(start), body=body)


def _log1p(g: Graph, p: Params, shapes: Shapes, x: str) -> str:
    """log(u) x / (u - 1) with u = 1 + x as it is rounded, and x where that is 1: right near zero, too."""
    one = g.constant(1, shapes[0].dtype)
    u = g.node("Add", x, one)
    usual = g.node("Mul", g.node("Log", u), g.node("Div", x, g.node("Sub", u, one)))
    return g.node("Where", g.node("Equal", u, one), x, usual)


def _expm1(g: Graph, p: Params, shapes: Shapes, x: str) -> str:
    """tanh(x / 2) (exp(x) + 1), which loses nothing near zero, where exp(x) - 1 would."""
    half, one = g.constant(0.5, shapes[0].dtype), g.constant(1, shapes[0].dtype)
    return g.node("Mul", g.node("Tanh", g.node("Mul", x, half)), g.node("Add", g.node("Exp", x), one))


def _integer_pow(g: Graph, p: Params, shapes: Shapes, x: str) -> str | None:
    if not p["y"]:
        return None
    found = x
    for _ in range(abs(p["y"]) - 1):
        found = g.node("Mul", found, x)
    return g.node("Reciprocal", found) if p["y"] < 0 else found


def _broadcast(g: Graph, p: Params, shapes: Shapes, x: str) -> str:
    shape, kept = p["shape"], list(p["broadcast_dimensions"])
    if new := [axis for axis in range(len(shape)) if axis not in kept]:
        x = g.node("Unsqueeze", x, g.axes(new))
    grown = new or any(one != shape[axis] for one, axis in zip(shapes[0].shape, kept, strict=True))
    return g.node("Expand", x, g.shape(shape)) if grown else x


def _slice(g: Graph, p: Params, shapes: Shapes, x: str) -> str:
    sizes = shapes[0].shape
    ends = [_END if one == size else one for one, size in zip(p["limit_indices"], sizes, strict=True)]
    strides = p["strides"] or [1] * len(sizes)
    return g.node("Slice", x, *map(g.axes, (p["start_indices"], ends, range(len(sizes)), strides)))


def _pad(g: Graph, p: Params, shapes: Shapes, x: str, value: str) -> str | None:
    lows, highs, inside = zip(*p["padding_config"], strict=True)
    return None if any(inside) or min(*lows, *highs) < 0 else g.node("Pad", x, g.axes([*lows, *highs]), value)


def _iota(g: Graph, p: Params, shapes: Shapes) -> str | None:
    shape, axis = p["shape"], p["dimension"]
    if not all(isinstance(size, int) for size in shape):
        return None
    numbers = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return g.constant(np.broadcast_to(numbers, shape), p["dtype"])


def _reduce(operator: str) -> Callable[..., str]:
    return lambda g, p, shapes, x: g.node(operator, x, g.axes(p["axes"]), keepdims=0) if p["axes"] else x


def _reduce_truth(operator: str) -> Callable[..., str]:
    return lambda g, p, shapes, x: g.cast(_reduce(operator)(g, p, shapes, g.cast(x, np.int32)), bool)


def _dot_general(g: Graph, p: Params, shapes: Shapes, *x: str) -> str:
    (left, right), (left_batch, right_batch) = p["dimension_numbers"]
    ranks = [len(one.shape) for one in shapes]
    if not left_batch and ranks[1] == 2 and tuple(left) == (ranks[0] - 1,) and tuple(right) == (0,) and ranks[0] > 1:
        return g.node("MatMul", *x)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    a, b = ([""] * rank for rank in ranks)
    for one, other in zip((*left_batch, *left), (*right_batch, *right), strict=True):
        a[one] = b[other] = next(letters)
    result = [a[axis] for axis in left_batch]
    for axes in (a, b):
        for k in range(len(axes)):
            if not axes[k]:
                axes[k] = next(letters)
                result.append(axes[k])
    return g.node("Einsum", *x, equation=f"{''.join(a)},{''.join(b)}->{''.join(result)}")


def _gather(g: Graph, p: Params, shapes: Shapes, x: str, indices: str) -> str | None:
    """`array[..., indices, ...]`: whole slices by their numbers along one axis."""
    numbers, sizes = p["dimension_numbers"], shapes[0].shape
    collapsed = tuple(map(int, numbers.collapsed_slice_dims))
    whole = all(k in collapsed or one == sizes[k] for k, one in enumerate(p["slice_sizes"]))
    if len(collapsed) != 1 or tuple(numbers.start_index_map) != collapsed or not whole or numbers.operand_batching_dims:
        return None
    axis, places = collapsed[0], len(shapes[1].shape) - 1
    found = g.node("Gather", x, g.node("Squeeze", indices, g.axes([-1])), axis=axis)
    # ONNX puts the indices' axes where the axis was, JAX where it says.
    rank, offsets = len(sizes) - 1 + places, [int(k) for k in numbers.offset_dims]
    rest = iter([k for k in range(rank) if not axis <= k < axis + places])
    between = iter(range(axis, axis + places))
    return g.transposed(found, [next(rest if k in offsets else between) for k in range(rank)])


def _scatter_add(g: Graph, p: Params, shapes: Shapes, x: str, indices: str, updates: str) -> str | None:
    """`array.at[..., indices, ...].add(updates)` along one axis, as a product with zeros and ones."""
    numbers, operand = p["dimension_numbers"], shapes[0]
    inserted = tuple(map(int, numbers.inserted_window_dims))
    one_axis = len(inserted) == 1 and tuple(numbers.scatter_dims_to_operand_dims) == inserted
    if not one_axis or len(shapes[1].shape) != 2 or numbers.operand_batching_dims:
        return None
    axis, rank = inserted[0], len(operand.shape)
    if not isinstance(operand.shape[axis], int):
        return None
    window = [int(k) for k in numbers.update_window_dims]
    [place] = [k for k in range(rank) if k not in window]
    places = g.cast(g.node("Squeeze", indices, g.axes([-1])), np.int64)
    depth, zero_one = g.constant(operand.shape[axis], np.int64), g.constant([0, 1], operand.dtype)
    added = g.node(
        "MatMul", g.transposed(updates, [*window, place]), g.node("OneHot", places, depth, zero_one, axis=-1)
    )
    return g.node("Add", x, g.transposed(added, np.argsort([*(k for k in range(rank) if k != axis), axis])))


OPERATORS: dict[str, Callable[..., str | Names | None]] = {
    **{name: lambda g, p, shapes, *x, operator=operator: g.node(operator, *x) for name, operator in {
        "abs": "Abs", "add": "Add", "add_any": "Add", "and": "And", "ceil": "Ceil", "copy": "Identity",
        "copy_p": "Identity", "cos": "Cos", "div": "Div", "eq": "Equal", "erf": "Erf", "exp": "Exp", "floor": "Floor",
        "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "log": "Log", "logistic": "Sigmoid",
        "lt": "Less", "max": "Max", "min": "Min", "mul": "Mul", "neg": "Neg", "not": "Not", "or": "Or", "pow": "Pow",
        "sign": "Sign", "sin": "Sin", "sqrt": "Sqrt", "stop_gradient": "Identity", "sub": "Sub", "tanh": "Tanh",
    }.items()},
    **{f"reduce_{name}": _reduce(f"Reduce{name.title()}") for name in ("sum", "max", "min")},
    "reduce_and": _reduce_truth("ReduceMin"),
    "reduce_or": _reduce_truth("ReduceMax"),
    "broadcast_in_dim": _broadcast,
    "clamp": lambda g, p, shapes, low, x, high: g.node("Min", g.node("Max", x, low), high),
    "concatenate": lambda g, p, shapes, *x: g.node("Concat", *x, axis=int(p["dimension"])),
    "convert_element_type": lambda g, p, shapes, x: g.cast(x, p["new_dtype"]),
    "dot_general": _dot_general,
    "exp2": lambda g, p, shapes, x: g.node("Pow", g.constant(2, shapes[0].dtype), x),
    "expm1": _expm1,
    "gather": _gather,
    "integer_pow": _integer_pow,
    "iota": _iota,
    "is_finite": lambda g, p, shapes, x: g.node("Not", g.node("Or", g.node("IsNaN", x), g.node("IsInf", x))),
    "log1p": _log1p,
    "ne": lambda g, p, shapes, *x: g.node("Not", g.node("Equal", *x)),
    "optimization_barrier": lambda g, p, shapes, *x: list(x),
    "pad": _pad,
    "reshape": lambda g, p, shapes, x: g.node("Reshape", x, g.shape(p["new_sizes"]), allowzero=1),
    "rsqrt": lambda g, p, shapes, x: g.node("Reciprocal", g.node("Sqrt", x)),
    "scatter-add": _scatter_add,
    "select_n": lambda g, p, shapes, which, *x: (
        g.node("Where", which, *reversed(x)) if len(x) == 2 and shapes[0].dtype == bool else None
    ),
    "slice": _slice,
    "split": lambda g, p, shapes, x: g.nodes("Split", [x, g.axes(p["sizes"])], len(p["sizes"]), axis=int(p["axis"])),
    "square": lambda g, p, shapes, x: g.node("Mul", x, x),
    "squeeze": lambda g, p, shapes, x: g.node("Squeeze", x, g.axes(p["dimensions"])),
    "stack": lambda g, p, shapes, *x: g.stacked(x, int(p["axis"])),
    "tile": lambda g, p, shapes, x: g.node("Tile", x, g.axes(p["reps"])),
    "transpose": lambda g, p, shapes, x: g.transposed(x, p["permutation"]),
}  # fmt: skip

"""A function of JAX as an ONNX model: its equations, one after the other, become nodes.

The function is traced for a batch whose size stays open. Calls are written out, loops of a fixed length are unrolled,
because members and blocks are few, and loops whose length depends on the data become ONNX loops. The table `OPERATORS`
has the rest: a function for each of JAX's primitives, which takes the graph, the equation and the names of its inputs,
writes nodes, and returns the names of its outputs.

jax2onnx 0.17 was tried instead. Five of the models that the tests export failed, in their loops and derivatives, and
`expm1` and `log1p` lost their digits near zero.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import numpy as np
import onnx
from jax.core import ShapedArray
from jax.extend.core import Literal
from onnx import helper, numpy_helper

Names = list[str]
Equation = Any  # `jax.extend.core.JaxprEqn`, of whose variables a type checker knows no shapes
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
    found = graph.write(closed.jaxpr, closed.consts, inputs)
    # An output may be an input, or the same as another: each needs a name of its own.
    for one, output in zip(found, outputs, strict=True):
        graph.written.append(helper.make_node("Identity", [one], [output]))
    described = helper.make_graph(
        graph.written,
        name,
        [_described(one, variable) for one, variable in zip(inputs, closed.jaxpr.invars, strict=True)],
        [_described(one, variable) for one, variable in zip(outputs, closed.jaxpr.outvars, strict=True)],
        list(graph.constants.values()),
    )
    model = helper.make_model(
        described, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR, producer_name="neuralrde"
    )
    onnx.checker.check_model(model, full_check=True)
    return model


class Graph:
    """Nodes that have been written so far, and constants."""

    def __init__(self, batch: Any, first: str):
        self.size, self.count = batch, 0
        self.written: list[Any] = []
        self.constants: dict[Any, onnx.TensorProto] = {}
        self.batch = self.node("Shape", [first], start=0, end=1)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def node(self, operator: str, inputs: Names, **attributes: Any) -> str:
        return self.nodes(operator, inputs, 1, **attributes)[0]

    def nodes(self, operator: str, inputs: Names, outputs: int, **attributes: Any) -> Names:
        names = [self.name() for _ in range(outputs)]
        self.written.append(helper.make_node(operator, inputs, names, **attributes))
        return names

    def constant(self, array: np.ndarray) -> str:
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = numpy_helper.from_array(array, f"c{len(self.constants)}")
        return self.constants[key].name

    def axes(self, numbers: Any) -> str:
        return self.constant(np.array([int(one) for one in numbers], np.int64))

    def shape(self, sizes: Any) -> str:
        """A shape as a tensor, in which the size of the batch is read from the first input."""
        if all(isinstance(size, int | np.integer) for size in sizes):
            return self.axes(sizes)
        parts = []
        for size in sizes:
            if isinstance(size, int | np.integer):
                parts.append(self.axes([size]))
            elif size == self.size:
                parts.append(self.batch)
            else:
                raise unsupported(f"an array of the size {size}, where `batch` is the number of streams")
        return self.node("Concat", parts, axis=0)

    def cast(self, name: str, to: Any) -> str:
        return self.node("Cast", [name], to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))

    def write(self, jaxpr: Any, consts: Any, names: Names) -> Names:
        """Write all equations; the names of what comes out."""
        known: dict[Any, str] = {variable: self.constant(np.asarray(one)) for variable, one in zip(
            jaxpr.constvars, consts, strict=True
        )}  # fmt: skip
        known.update(zip(jaxpr.invars, names, strict=True))

        def read(variable: Any) -> str:
            if isinstance(variable, Literal):
                aval: Any = variable.aval
                return self.constant(np.asarray(variable.val, aval.dtype))
            return known[variable]

        for eqn in jaxpr.eqns:
            inputs, primitive = [read(one) for one in eqn.invars], eqn.primitive.name
            if primitive in OPERATORS:
                found = OPERATORS[primitive](self, eqn, inputs)
            elif primitive in _CALLS:
                called = next(eqn.params[name] for name in _CALLED if name in eqn.params)
                found = self.call(called, inputs)
            elif primitive == "scan":
                found = self.scan(eqn.params, inputs)
            elif primitive == "while":
                found = self.loop(eqn, inputs)
            else:
                raise unsupported(f"JAX's primitive {primitive!r}")
            known.update(zip(eqn.outvars, found, strict=True))
        return [read(one) for one in jaxpr.outvars]

    def call(self, called: Any, names: Names) -> Names:
        # A closed function has its constants with it.
        return self.write(called.jaxpr, called.consts, names) if hasattr(called, "consts") else (
            self.write(called, (), names)
        )  # fmt: skip

    def scan(self, params: Any, names: Names) -> Names:
        """Unrolled: each pass takes its slice of what is scanned over, and all slices are put together."""
        first, length = params["num_consts"], params["length"]
        last = first + params["num_carry"]
        consts, carried, scanned = names[:first], names[first:last], names[last:]
        passes: list[Names] = [[] for _ in range(length)]
        for number in reversed(range(length)) if params["reverse"] else range(length):
            place = self.constant(np.array(number, np.int64))
            own = [self.node("Gather", [one, place], axis=0) for one in scanned]
            found = self.call(params["jaxpr"], [*consts, *carried, *own])
            carried, passes[number] = found[: last - first], found[last - first :]
        stacked = lambda slices: self.node(
            "Concat", [self.node("Unsqueeze", [one, self.axes([0])]) for one in slices], axis=0
        )
        return [*carried, *map(stacked, zip(*passes, strict=True))]

    def loop(self, eqn: Any, names: Names) -> Names:
        """An ONNX loop. Its body sees the names outside of it, and says at its end whether to go on.

        Of a batch, each stream has a condition of its own: the loop goes on while any holds, and a stream whose
        condition does not stays as it is.
        """
        params = eqn.params
        first = params["cond_nconsts"]
        last = first + params["body_nconsts"]
        of_condition, of_body, start = names[:first], names[first:last], names[last:]
        [rank] = [len(one.aval.shape) for one in params["cond_jaxpr"].jaxpr.outvars]
        ranks = [len(one.aval.shape) for one in eqn.outvars]
        [begins] = self.call(params["cond_jaxpr"], [*of_condition, *start])
        begins = self.any(begins, rank)
        outside, self.written = self.written, []
        before = [self.name() for _ in start]
        after = self.call(params["body_jaxpr"], [*of_body, *before])
        if rank:
            [holds] = self.call(params["cond_jaxpr"], [*of_condition, *before])
            after = [
                self.node("Where", [self.trailing(holds, rank, own), new, old])
                for own, new, old in zip(ranks, after, before, strict=True)
            ]
        [goes_on] = self.call(params["cond_jaxpr"], [*of_condition, *after])
        number, condition = self.name(), self.name()
        results = [self.node("Identity", [one]) for one in (self.any(goes_on, rank), *after)]
        kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(one.aval.dtype)) for one in eqn.outvars]
        described = lambda name, kind, shape=None: helper.make_tensor_value_info(name, kind, shape)
        truth, many = onnx.TensorProto.BOOL, lambda names: [described(*one) for one in zip(names, kinds, strict=True)]
        body = helper.make_graph(
            self.written,
            f"body_{number}",
            [described(number, onnx.TensorProto.INT64, []), described(condition, truth, []), *many(before)],
            [described(results[0], truth, []), *many(results[1:])],
        )
        self.written = outside
        return self.nodes("Loop", ["", begins, *start], len(start), body=body)

    def any(self, name: str, rank: int) -> str:
        """Whether any of these truths holds."""
        if not rank:
            return name
        most = self.node("ReduceMax", [self.cast(name, np.int32), self.axes(range(rank))], keepdims=0)
        return self.cast(most, bool)

    def trailing(self, name: str, rank: int, wanted: int) -> str:
        """With as many axes as are wanted, the new ones at the end."""
        return name if rank == wanted else self.node("Unsqueeze", [name, self.axes(range(rank, wanted))])


def _described(name: str, variable: Any) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(variable.aval.dtype))
    shape = ["batch" if not isinstance(size, int) else size for size in variable.aval.shape]
    return helper.make_tensor_value_info(name, kind, shape)


def _direct(operator: str) -> Callable:
    return lambda graph, eqn, names: [graph.node(operator, names)]


def _integer_pow(graph: Graph, eqn: Equation, names: Names) -> Names:
    power = eqn.params["y"]
    found = names[0]
    for _ in range(abs(power) - 1):
        found = graph.node("Mul", [found, names[0]])
    return [graph.node("Reciprocal", [found]) if power < 0 else found] if power else _refused(graph, eqn, names)


def _expm1(graph: Graph, eqn: Equation, names: Names) -> Names:
    """tanh(x / 2) (exp(x) + 1), which loses nothing near zero, where exp(x) - 1 would."""
    half, one = (graph.constant(np.asarray(value, _type(eqn.invars[0]))) for value in (0.5, 1.0))
    tanh = graph.node("Tanh", [graph.node("Mul", [names[0], half])])
    return [graph.node("Mul", [tanh, graph.node("Add", [graph.node("Exp", names), one])])]


def _log1p(graph: Graph, eqn: Equation, names: Names) -> Names:
    """log(u) x / (u - 1) with u = 1 + x as it is rounded, and x where that is 1: right near zero, too."""
    one = graph.constant(np.asarray(1.0, _type(eqn.invars[0])))
    u = graph.node("Add", [names[0], one])
    ratio = graph.node("Div", [names[0], graph.node("Sub", [u, one])])
    usual = graph.node("Mul", [graph.node("Log", [u]), ratio])
    return [graph.node("Where", [graph.node("Equal", [u, one]), names[0], usual])]


def _is_finite(graph: Graph, eqn: Equation, names: Names) -> Names:
    wrong = graph.node("Or", [graph.node("IsNaN", names), graph.node("IsInf", names)])
    return [graph.node("Not", [wrong])]


def _select(graph: Graph, eqn: Equation, names: Names) -> Names:
    if len(names) != 3 or _type(eqn.invars[0]).kind != "b":
        return _refused(graph, eqn, names)
    return [graph.node("Where", [names[0], names[2], names[1]])]


def _convert(graph: Graph, eqn: Equation, names: Names) -> Names:
    return [graph.cast(names[0], eqn.params["new_dtype"])]


def _broadcast(graph: Graph, eqn: Equation, names: Names) -> Names:
    shape, kept = eqn.params["shape"], [int(axis) for axis in eqn.params["broadcast_dimensions"]]
    found = names[0]
    if new := [axis for axis in range(len(shape)) if axis not in kept]:
        found = graph.node("Unsqueeze", [found, graph.constant(np.array(new, np.int64))])
    before = eqn.invars[0].aval.shape
    grown = new or any(one != shape[axis] for one, axis in zip(before, kept, strict=True))
    return [graph.node("Expand", [found, graph.shape(shape)]) if grown else found]


def _reshape(graph: Graph, eqn: Equation, names: Names) -> Names:
    return [graph.node("Reshape", [names[0], graph.shape(eqn.params["new_sizes"])], allowzero=1)]


def _squeeze(graph: Graph, eqn: Equation, names: Names) -> Names:
    return [graph.node("Squeeze", [names[0], graph.axes(eqn.params["dimensions"])])]


def _transpose(graph: Graph, eqn: Equation, names: Names) -> Names:
    return [transposed(graph, names[0], eqn.params["permutation"])]


def transposed(graph: Graph, name: str, order: Any) -> str:
    order = [int(axis) for axis in order]
    return name if order == sorted(order) else graph.node("Transpose", [name], perm=order)


def _concatenate(graph: Graph, eqn: Equation, names: Names) -> Names:
    return [graph.node("Concat", names, axis=int(eqn.params["dimension"]))]


def _stack(graph: Graph, eqn: Equation, names: Names) -> Names:
    axis = int(eqn.params["axis"])
    return [graph.node("Concat", [graph.node("Unsqueeze", [one, graph.axes([axis])]) for one in names], axis=axis)]


def _tile(graph: Graph, eqn: Equation, names: Names) -> Names:
    return [graph.node("Tile", [names[0], graph.axes(eqn.params["reps"])])]


def _split(graph: Graph, eqn: Equation, names: Names) -> Names:
    sizes = graph.axes(eqn.params["sizes"])
    return graph.nodes("Split", [names[0], sizes], len(eqn.outvars), axis=int(eqn.params["axis"]))


def _slice(graph: Graph, eqn: Equation, names: Names) -> Names:
    shape, first = eqn.invars[0].aval.shape, eqn.params["start_indices"]
    last, strides = eqn.params["limit_indices"], eqn.params["strides"] or [1] * len(shape)
    ends = [_END if one == size else one for one, size in zip(last, shape, strict=True)]
    return [graph.node("Slice", [names[0], *(map(graph.axes, (first, ends, range(len(shape)), strides)))])]


def _pad(graph: Graph, eqn: Equation, names: Names) -> Names:
    config = eqn.params["padding_config"]
    if any(inside or low < 0 or high < 0 for low, high, inside in config):
        return _refused(graph, eqn, names)
    sizes = graph.axes([low for low, _, _ in config] + [high for _, high, _ in config])
    return [graph.node("Pad", [names[0], sizes, names[1]])]


def _iota(graph: Graph, eqn: Equation, names: Names) -> Names:
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
    def write(graph: Graph, eqn: Equation, names: Names) -> Names:
        whole = graph.cast(names[0], np.dtype(np.int32))
        return [graph.cast(_reduce(operator)(graph, eqn, [whole])[0], np.dtype(bool))]

    return write


def _dot_general(graph: Graph, eqn: Equation, names: Names) -> Names:
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


def _gather(graph: Graph, eqn: Equation, names: Names) -> Names:
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


def _scatter_add(graph: Graph, eqn: Equation, names: Names) -> Names:
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


def _clamp(graph: Graph, eqn: Equation, names: Names) -> Names:
    return [graph.node("Min", [graph.node("Max", [names[1], names[0]]), names[2]])]


def _refused(graph: Graph, eqn: Equation, names: Names) -> Names:
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


OPERATORS: dict[str, Callable[[Graph, Equation, Names], Names]] = {
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
    "square": lambda graph, eqn, names: [graph.node("Mul", [names[0], names[0]])],
    "squeeze": _squeeze,
    "stack": _stack,
    "tile": _tile,
    "transpose": _transpose,
}  # fmt: skip

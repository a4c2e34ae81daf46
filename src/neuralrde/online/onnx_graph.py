"""A function of JAX as an ONNX model: its equations, one after the other, become nodes.

The function is traced for a batch whose size stays open. Calls are written out, loops of a fixed length are unrolled,
because members and blocks are few, and loops whose length depends on the data become ONNX loops. The table of
`onnx_operators.py` has the rest.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import numpy as np
import onnx
from jax.extend.core import Literal
from onnx import helper, numpy_helper

from .onnx_operators import OPERATORS, Names, unsupported

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

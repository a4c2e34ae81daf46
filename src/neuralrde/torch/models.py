"""A neural RDE in PyTorch, and trained models of neuralrde, as exported, in programs of PyTorch."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import ParameterError
from ..signatures.lyndon import basis_channels
from .windows import log_signatures

# Of a Runge-Kutta method: the rows that make each stage from those before it, and the weights of all stages.
SOLVERS: dict[str, tuple[list[list[float]], list[float]]] = {
    "euler": ([[]], [1.0]),
    "heun": ([[], [1.0]], [1 / 2, 1 / 2]),
    "rk4": ([[], [1 / 2], [0.0, 1 / 2], [0.0, 0.0, 1.0]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
}


class NeuralRDE(nn.Module):
    r"""The neural RDE of `neuralrde.NeuralRDE`: z0 = Linear(x0), z' = f(z) LogSig^N per window, y = Linear(z).

    The last layer of f is linear, so it is contracted with each window's log-signature first, and all stages of the
    solver share the result.

    Args:
        channels: channels of the path, time included.
        outputs: channels of the prediction.
        depth, scales: of the log-signatures.
        state: channels of the hidden state.
        width, layers, activation: shape of f's network, whose features are in tanh.
        readout: "final", "mean" or "every" state; "every" predicts at the end of each window.
        solver, substeps: "euler", "heun" or "rk4", and its steps per window.
        keep: windows between two states that are kept for the gradient, which computes the others again. None takes
            the root of the number of windows, which keeps the least; 0 keeps everything.

    >>> path = torch.randn(8, 1000, 3)
    >>> model = NeuralRDE(channels=3, outputs=2, depth=2)
    >>> logs = log_signatures(path, depth=2, step=50)
    >>> model.fit_scale(logs)(path[:, 0], logs).shape
    torch.Size([8, 2])
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        depth: int | tuple[int, ...],
        scales: tuple[int, ...] = (1,),
        state: int = 32,
        width: int = 64,
        layers: int = 3,
        activation: Callable[[Tensor], Tensor] = torch.relu,
        readout: Literal["final", "mean", "every"] = "final",
        solver: Literal["euler", "heun", "rk4"] = "rk4",
        substeps: int = 1,
        keep: int | None = None,
    ):
        super().__init__()
        for name, value, known in (("readout", readout, ("final", "mean", "every")), ("solver", solver, SOLVERS)):
            if value not in known:
                raise ParameterError(name, value, f"one of {', '.join(map(repr, known))}")
        controls = basis_channels(channels, depth, scales=scales)
        self.readout, self.solver, self.substeps, self.keep = readout, solver, substeps, keep
        self.activation = activation
        self.encoder, self.decoder = nn.Linear(channels, state), nn.Linear(state, outputs)
        sizes = [state] + [width] * (layers - 1)
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes)
        for layer in self.hidden:  # through a few ReLU layers the features keep their size (He)
            nn.init.normal_(layer.weight, std=math.sqrt(2 / layer.in_features))  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        self.weight = nn.Parameter(torch.randn(controls, state, width) / math.sqrt(width * controls))
        self.bias = nn.Parameter(torch.zeros(controls, state))
        self.register_buffer("scale", torch.ones(controls))

    def fit_scale(self, logs: Tensor) -> "NeuralRDE":
        """Scale the model by the training set's log-signatures (batch, windows, controls); returns itself."""
        size = logs.double().square().mean(dim=(0, 1)).sqrt()
        self.scale = (1 / (torch.where(size > 0, size, 1.0) * math.sqrt(logs.shape[1]))).to(self.scale)
        return self

    def forward(self, x0: Tensor, logs: Tensor) -> Tensor:
        """Predictions from first points (batch, channels) and log-signatures (batch, windows, controls)."""
        z, states = self.encoder(x0), []
        count = logs.shape[-2]
        block = count if self.keep == 0 else self.keep or math.ceil(math.sqrt(count))
        for start in range(0, count, max(block, 1)):
            part = logs[..., start : start + block, :]
            if self.keep == 0 or not torch.is_grad_enabled():
                some = self._followed(z, part)
            else:
                some = checkpoint(self._followed, z, part, use_reentrant=False)
            z = some[..., -1, :]
            states.append(z[..., None, :] if self.readout == "final" else some)
        if self.readout == "final" or not states:
            return self.decoder(z)
        every = torch.cat(states, dim=-2)
        return self.decoder(every.mean(dim=-2) if self.readout == "mean" else every)

    def _followed(self, z: Tensor, logs: Tensor) -> Tensor:
        """The states at the ends of some windows."""
        logs = logs * self.scale.to(logs)
        rows, weights = SOLVERS[self.solver]
        controls, state, width = self.weight.shape
        flat, states = self.weight.reshape(controls, -1), []
        for window in logs.unbind(dim=-2):
            matrix = (window @ flat).unflatten(-1, (state, width))
            offset = window @ self.bias
            for _ in range(self.substeps):
                slopes: list[Tensor] = []
                for row in rows:
                    stage = self._moved(z, slopes, row)
                    slopes.append((matrix @ self._features(stage)[..., None])[..., 0] + offset)
                z = self._moved(z, slopes, weights)
            states.append(z)
        return torch.stack(states, dim=-2)

    def _moved(self, z: Tensor, slopes: list[Tensor], factors: list[float]) -> Tensor:
        for factor, slope in zip(factors, slopes, strict=True):
            if factor:
                z = z + factor / self.substeps * slope
        return z

    def _features(self, z: Tensor) -> Tensor:
        for layer in self.hidden[:-1]:
            z = self.activation(layer(z))
        return torch.tanh(self.hidden[-1](z))


class ExportedModel(nn.Module):
    """A trained model, as `neuralrde export` wrote it, called with PyTorch's tensors; it needs onnxruntime, not JAX.

    It predicts and is not trained: nothing is differentiated. It takes models with windows by count and without shifts,
    in the basis of words, and series without missing values, prepared by `Standard(fill=None)` or by you.

    Args:
        folder: holds `manifest.json`, `start.onnx` and `step.onnx`.
    """

    def __init__(self, folder: str | os.PathLike):
        super().__init__()
        import onnxruntime  # type: ignore

        folder = Path(folder)
        self.manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
        about, windows = self.manifest["log_signature"], self.manifest["windows"]
        if not windows["step"] or windows["shifts"] != [0] or about["basis"] == "expanded" or about["increments_first"]:
            raise ValueError(
                f"Got a model with the windows {windows} and log-signatures {about}; expected windows by count without "
                "shifts, of the path itself. Call its ONNX files window by window: see the page on export."
            )
        self._run = {
            name: onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"])
            for name in ("start", "step")
        }

    def prepared(self, values: Tensor) -> Tensor:
        """Series (batch, length, channels) as the model was trained with: scaled, and with time."""
        for one in self.manifest["transform"]["transforms"]:
            if one["transform"] == "scale":
                values = (values - values.new_tensor(one["means_"])) / values.new_tensor(one["deviations_"])
            elif one["transform"] == "time" and not one["timed_"]:
                time = torch.arange(values.shape[-2]).to(values) / (one["duration"] or one["duration_"])
                values = torch.cat([time[:, None].expand(*values.shape[:-1], 1), values], dim=-1)
            else:
                raise ValueError(
                    f"Got a model with the transform {one['transform']!r}; expected `Standard(fill=None)`, whose "
                    "arithmetic is known here. Prepare series yourself and call `follow(path)`."
                )
        return values

    def forward(self, values: Tensor) -> Tensor:
        """The outputs (batch, outputs) at the end of series (batch, length, channels): logits, or targets' units."""
        return self.follow(self.prepared(values.detach().double()))[:, -1].to(values.device)

    def follow(self, path: Tensor) -> Tensor:
        """The outputs (batch, windows, outputs) at the end of each window of prepared series."""
        about, names = self.manifest["log_signature"], [one["name"] for one in self.manifest["state"]]
        depth, scales = tuple(about["depth"]), tuple(about["scales"])
        step = self.manifest["windows"]["step"]
        logs = log_signatures(path.detach(), depth, step=step, scales=scales, basis=about["basis"])
        state, outputs = self._run["start"].run(None, {"x0": path[:, 0].float().cpu().numpy()}), []
        for window in logs.float().cpu().unbind(dim=-2):
            given = {"log_signature": window.numpy(), **dict(zip(names, state, strict=True))}
            output, *state = self._run["step"].run(None, given)
            outputs.append(torch.from_numpy(output))
        return torch.stack(outputs, dim=-2)

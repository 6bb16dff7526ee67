"""LoRA adapters: shapes, reproducible initial values, and their share of a forward pass.

y = W x + (32 / rank) B A x, with A uniform in +-1/sqrt(inputs) and B zero (Hu et al. 2021; alpha fixed at 32 as in the
Tinker service, so that one learning rate fits all ranks). All parameters of an adapter live in ONE flat float32 vector:
Adam, gradient norms, digests and checkpoints are then single operations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

ALPHA = 32.0

# lora(site, layer, input [tokens, in], output [tokens, out]) -> output with the adapter's share added
Lora = Callable[[str, int, Tensor, Tensor], Tensor]


def no_lora(site: str, layer: int, inputs: Tensor, outputs: Tensor) -> Tensor:
    """The base model itself."""
    return outputs


@dataclass(frozen=True)
class LoraSpec:
    """What an adapter covers. `seed` fixes its initial values."""

    rank: int
    seed: int
    attn: bool = True
    mlp: bool = True
    unembed: bool = True

    @property
    def shape(self) -> tuple[int, bool, bool, bool]:
        """What fixes the adapter's matrices: everything but the seed."""
        return (self.rank, self.attn, self.mlp, self.unembed)

    def to_json(self) -> dict:
        return {"rank": self.rank, "seed": self.seed, "attn": self.attn, "mlp": self.mlp, "unembed": self.unembed}


# Where an adapter acts: site, layer, input width, and the modules (checkpoint name, output width) that share the input.
Place = tuple[str, int, int, tuple[tuple[str, int], ...]]


class HasPlaces(Protocol):
    """A model that says where an adapter acts, in a fixed order."""

    def places(self, spec: LoraSpec) -> list[Place]: ...


@dataclass(frozen=True)
class Matrix:
    """One A or B matrix: its checkpoint name, its place (site, layer, module index) and its slice of the flat vector."""

    name: str
    site: str
    layer: int
    module: int
    kind: str
    shape: tuple[int, int]
    offset: int

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True)
class Layout:
    """Every matrix of an adapter in flat order. The As of a fused site are neighbours, so they read as one matrix."""

    spec: LoraSpec
    matrices: tuple[Matrix, ...]
    size: int
    places: dict[tuple[str, int], tuple[Matrix, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: HasPlaces, spec: LoraSpec) -> Layout:
        """The layout of an adapter with `spec` on `model`."""
        matrices: list[Matrix] = []
        places: dict[tuple[str, int], tuple[Matrix, ...]] = {}
        offset = 0
        for site, layer, inputs, modules in model.places(spec):
            group = []
            for kind in ("A", "B"):
                for module, (name, width) in enumerate(modules):
                    shape = (spec.rank, inputs) if kind == "A" else (width, spec.rank)
                    group.append(Matrix(f"{name}.lora_{kind}.weight", site, layer, module, kind, shape, offset))
                    offset += group[-1].size
            matrices += group
            places[site, layer] = tuple(group)
        return cls(spec, tuple(matrices), offset, places)

    @property
    def head(self) -> tuple[Matrix, ...]:
        """The matrices on the output embedding; none when it is not trained."""
        return next((group for (site, _), group in self.places.items() if site in ("unembed", "lm_head")), ())

    def initial(self, base_digest: str) -> Tensor:
        """Initial values, a function of (base, rank, seed) and each matrix's name alone, on any machine."""
        flat = np.zeros(self.size, dtype=np.float32)
        for matrix in self.matrices:
            if matrix.kind == "A":
                key = f"{base_digest}:{self.spec.rank}:{self.spec.seed}:{matrix.name}".encode()
                seed = int.from_bytes(hashlib.sha256(key).digest()[:16], "big")
                bound = 1.0 / np.sqrt(matrix.shape[1])
                draw = np.random.Generator(np.random.Philox(key=seed)).random(matrix.size, dtype=np.float32)
                flat[matrix.offset : matrix.offset + matrix.size] = (2 * draw - 1) * np.float32(bound)
        return torch.from_numpy(flat)

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """The matrices as named views into `flat`."""
        return {m.name: flat[m.offset : m.offset + m.size].view(m.shape) for m in self.matrices}

    def flatten(self, tensors: dict[str, Tensor]) -> Tensor:
        """Inverse of `named`. KeyError or RuntimeError when names or shapes differ."""
        return torch.cat([tensors[m.name].float().reshape(m.size) for m in self.matrices])


def digest(flat: Tensor) -> str:
    """sha256 of an adapter's values; a checkpoint's identity for random streams and manifests."""
    return hashlib.sha256(flat.detach().cpu().contiguous().numpy().tobytes()).hexdigest()


class TrainingLora:
    """One adapter with gradients, for one forward and backward pass.

    `leaf` is the whole flat vector, so its gradient accumulates in one place; build a new object per pass.
    """

    def __init__(self, layout: Layout, leaf: Tensor, dtype: torch.dtype, matrices: tuple[Matrix, ...] | None = None):
        """`matrices`, neighbours in the layout, say what `leaf` holds if it is not the whole vector."""
        self.layout = layout
        self.scale = ALPHA / layout.spec.rank
        held = layout.matrices if matrices is None else matrices
        pieces = leaf.to(dtype).split([m.size for m in held])
        self._views = {m: p.view(m.shape) for m, p in zip(held, pieces, strict=True)}

    def __call__(self, site: str, layer: int, inputs: Tensor, outputs: Tensor) -> Tensor:
        group = self.layout.places.get((site, layer))
        if group is None:
            return outputs
        half = len(group) // 2
        shares = []
        for a, b in zip(group[:half], group[half:], strict=True):
            shares.append(F.linear(F.linear(inputs, self._views[a]), self._views[b]))
        share = shares[0] if half == 1 else torch.cat(shares, dim=-1)
        return torch.add(outputs, share, alpha=self.scale)


class AdapterStack:
    """Several frozen adapters applied to one batch, each row seeing only its own: a mask zeroes the others' share.

    On the CPU the adapters are added one after the other, so that a row's result does not depend, even in the last bit,
    on which adapters share the batch. On a GPU all As are one matrix and all Bs another: fewer kernels to launch.
    """

    def __init__(self, layouts: list[Layout], flats: list[Tensor], device: torch.device, dtype: torch.dtype):
        self.count = len(layouts)
        self._device = device
        self._parts: dict[tuple[str, int], list[tuple[Tensor, Tensor, tuple[int, ...]]]] = {}
        flats = [flat.to(device) for flat in flats]
        for place in sorted({place for layout in layouts for place in layout.places}):
            parts = []
            for index, (layout, flat) in enumerate(zip(layouts, flats, strict=True)):
                group = layout.places.get(place)
                if group is None:
                    continue
                half = len(group) // 2
                views = [flat[m.offset : m.offset + m.size].view(m.shape) for m in group]
                a = torch.cat(views[:half]).to(device, dtype)
                b = torch.block_diag(*views[half:]) * (ALPHA / layout.spec.rank)
                parts.append((a, b.t().contiguous().to(device, dtype), (index,) * a.shape[0]))
            if device.type != "cpu" and len(parts) > 1:
                owners = tuple(owner for part in parts for owner in part[2])
                parts = [(torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts]), owners)]
            self._parts[place] = parts

    def assign(self, other: AdapterStack) -> None:
        """Take over the values of a stack of the same layouts, in place: captured graphs read these very addresses."""
        for place, parts in self._parts.items():
            for mine, theirs in zip(parts, other._parts[place], strict=True):
                mine[0].copy_(theirs[0])
                mine[1].copy_(theirs[1])

    def bind(self, owners: list[int]) -> Lora:
        """The stack for one batch: which adapter each row uses, as an index per row, -1 for the base model."""
        masks: dict[tuple[int, ...], Tensor] | None = None
        if self.count > 1 or any(owner != 0 for owner in owners):
            rows = torch.tensor(owners, device=self._device).unsqueeze(1)
            masks = {
                columns: rows == torch.tensor(columns, device=self._device).unsqueeze(0)
                for columns in {part[2] for parts in self._parts.values() for part in parts}
            }

        def apply(site: str, layer: int, inputs: Tensor, outputs: Tensor) -> Tensor:
            for a, b, columns in self._parts.get((site, layer), ()):
                low = F.linear(inputs, a)
                if masks is not None:
                    low = low * masks[columns]
                outputs.addmm_(low, b)  # a projection's fresh result: nobody else holds it
            return outputs

        return apply

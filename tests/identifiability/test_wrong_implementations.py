"""A test of the tests: wrong implementations, put into the package one by one, must make some test of it fail.

The tests are those beside this file that take no arguments, most of which are worked by hand.
"""

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import identiformer.identifiability as public
from identiformer.errors import InputError
from identiformer.identifiability import (
    AttentionHead,
    Level,
    Verdict,
    certify,
    certify_layer,
    directions,
    effective_attention,
    exponential,
    nearest_row,
    possible_tops,
    recovery,
    spectrum,
    ties,
    tolerance,
    weight_intervals,
)

FILES = ("certificate", "directions", "effective", "head", "intervals", "layer", "recovery", "ties", "tops")
FAILURES = (AssertionError, InputError, RuntimeError, pytest.fail.Exception)


@functools.cache
def modules() -> dict[str, ModuleType]:
    """The test files, loaded for a second time, and under names of their own."""
    loaded: dict[str, ModuleType] = {}
    for name in FILES:
        path = Path(__file__).with_name(f"test_{name}.py")
        if path.exists():
            spec = importlib.util.spec_from_file_location(f"under_wrong_implementations.{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            loaded[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded[name])
    return loaded


def asked(file: str, hint: str) -> Iterator[Callable[[], None]]:
    """The tests of a file that need nothing but parameters, those with a hint in their names first."""
    functions = [function for name, function in vars(modules()[file]).items() if name.startswith("test_")]
    for function in sorted(functions, key=lambda function: hint not in function.__name__):
        marks = getattr(function, "pytestmark", [])
        if not inspect.isfunction(function) or any(mark.name != "parametrize" for mark in marks):
            continue
        for chosen in itertools.product(*(_choices(*mark.args[:2]) for mark in marks)):
            arguments = {name: value for choice in chosen for name, value in choice.items()}
            if arguments.keys() == inspect.signature(function).parameters.keys():
                yield functools.partial(function, **arguments)


def _choices(names: str | tuple[str, ...], values: Any) -> list[dict[str, Any]]:
    """What a mark `parametrize` lets the parameters be."""
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [[value] if len(listed) == 1 else value for value in values]
    return [dict(zip(listed, row, strict=True)) for row in rows]


class Patcher:
    """Puts something else in the place of a function, wherever it is known by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.by_name = {
            found.name: importlib.import_module(f"{public.__name__}.{found.name}")
            for found in pkgutil.iter_modules(public.__path__)
        }
        self.modules = [public, *self.by_name.values(), *modules().values()]

    def function(self, right: Callable[..., Any], wrong: Callable[..., Any]) -> None:
        places = 0
        for module in self.modules:
            for name, value in list(vars(module).items()):
                if value is right:
                    self.monkeypatch.setattr(module, name, wrong)
                    places += 1
        assert places > 0

    def attribute(self, owner: type, name: str, wrong: Any) -> None:
        assert name in vars(owner)
        self.monkeypatch.setattr(owner, name, wrong)


def centring(patcher: Patcher, sign: float) -> None:
    """M + sign * mean instead of M - mean."""

    def wrong_centre(matrix, mask):
        matrix = matrix.masked_fill(~mask[..., None], 0.0)
        mean = matrix.sum(dim=-2, keepdim=True) / mask.sum(dim=-1)[..., None, None]
        return (matrix + sign * mean).masked_fill(~mask[..., None], 0.0)

    patcher.function(spectrum.centre, wrong_centre)
    right = getattr(patcher.by_name.get("quick"), "centred_at", None)
    if right is not None:

        def wrong_quick(matrix, head):
            mean, centred = right(matrix, head)
            return mean, (centred + (1 + sign) * mean).masked_fill(~head.mask[..., None], 0.0)

        patcher.function(right, wrong_quick)


def wrong_sign_of_the_mean(patcher):
    centring(patcher, 1.0)


def no_centring(patcher):
    centring(patcher, 0.0)


def mask_ignored(patcher):
    patcher.attribute(
        AttentionHead, "mask", property(lambda head: torch.ones(head.weights.shape[-1:], dtype=torch.bool))
    )


def absolute_tolerance(patcher):
    patcher.function(tolerance.output_cutoff, lambda head, greatest: torch.full_like(greatest, 1e-6))


def precision_of_the_model_ignored(patcher):
    patcher.attribute(AttentionHead, "eps", property(lambda head: torch.finfo(torch.float64).eps))


def keys_uncentred(patcher):
    right = directions.tangents

    def wrong(weights, coordinates, eps):
        found = right(weights, coordinates, eps)
        moves = weights[..., None] * (coordinates + 1)
        basis = torch.linalg.qr(moves).Q[..., : found.basis.shape[-1]]
        return found._replace(basis=basis * (found.basis != 0).any(dim=-2, keepdim=True))

    patcher.function(right, wrong)


def query_with(patcher, change: Callable[[dict[str, Any]], None]) -> None:
    right = AttentionHead.from_query.__func__

    def wrong(cls, *args, **kwargs):
        given = inspect.signature(right).bind(cls, *args, **kwargs)
        change(given.arguments)
        return right(*given.args, **given.kwargs)

    patcher.attribute(AttentionHead, "from_query", classmethod(wrong))


def scaling_forgotten(patcher):
    query_with(patcher, lambda given: given.update(scaling=1.0))


def wrong_sign_of_the_bias(patcher):
    query_with(
        patcher, lambda given: given.update(bias=-given["bias"] if given.get("bias") is not None else None)
    )


def projection_forgotten(patcher):
    patcher.attribute(
        AttentionHead, "reduced", property(lambda head: head.values.masked_fill(~head.mask[..., None], 0.0))
    )


def ties_overlooked(patcher):
    right = ties.equal_tokens

    def wrong(features, mask, eps):
        found = right(features, mask, eps)
        places = torch.arange(mask.shape[-1]).expand_as(found.group).masked_fill(found.group < 0, -1)
        return found._replace(number=torch.zeros_like(found.number), group=places)

    patcher.function(right, wrong)


def local_taken_for_global(patcher):
    def wrong(head):
        found = certify(head)
        verdict = found.generatable.verdict
        verdict = verdict.where(verdict != int(Verdict.LOCAL), int(Verdict.GLOBAL))
        return dataclasses.replace(found, generatable=dataclasses.replace(found.generatable, verdict=verdict))

    patcher.function(certify, wrong)


def margin_relative_to_nothing(patcher):
    def wrong(head):
        found = certify(head)
        size = torch.linalg.matrix_norm(head.transformed, 2)
        levels = {level.value: found[level] for level in Level}
        changed = {name: dataclasses.replace(one, margin=one.margin * size) for name, one in levels.items()}
        return dataclasses.replace(found, **changed)

    patcher.function(certify, wrong)


def what_the_output_does_not_see(patcher):
    patcher.function(
        effective_attention,
        lambda head, keep_sum=False: head.weights - effective_attention(head, keep_sum),
    )


def intervals_of_the_row_alone(patcher):
    def wrong(head, *args, **kwargs):
        found = weight_intervals(head, *args, **kwargs)
        found.upper.copy_(head.weights)
        return found

    patcher.function(weight_intervals, wrong)


def tops_by_intervals_alone(patcher):
    def wrong(head, row=None, *args, **kwargs):
        lower, upper = weight_intervals(head, row)
        return ((upper >= lower.max() - 1e-9) & head.mask).nonzero()[:, 0].tolist()

    patcher.function(possible_tops, wrong)


def bias_forgotten_in_recovery(patcher):
    right = exponential.Family.logits
    patcher.attribute(
        exponential.Family, "logits", lambda self, theta: right(self._replace(bias=None), theta)
    )


def wrong_sign_in_recovery(patcher):
    right = nearest_row.fit
    patcher.function(right, lambda *args, **kwargs: -right(*args, **kwargs))


def recovery_without_a_certificate(patcher):
    right = recovery.certify

    def wrong(head):
        found = right(head)
        sure = {
            level.value: dataclasses.replace(found[level], verdict=torch.full_like(found[level].verdict, 2))
            for level in Level
        }
        return dataclasses.replace(found, **sure)

    patcher.monkeypatch.setattr(recovery, "certify", wrong)


def heads_of_a_layer_one_by_one(patcher):
    def wrong(head, head_dimension=None):
        found, alone = certify_layer(head, head_dimension), certify(head)
        place = max(len(head.batch_shape) - 2, 0) if head_dimension is None else head_dimension
        changed = {
            level.value: dataclasses.replace(
                found[level],
                nullity=alone[level].nullity.sum(dim=place),
                verdict=alone[level].verdict.amin(dim=place),
            )
            for level in Level
        }
        return dataclasses.replace(found, **changed)

    patcher.function(certify_layer, wrong)


# With the file in which a test has to fail, and with what its name may hold.
WRONG: dict[Callable[[Patcher], None], tuple[str, str]] = {
    wrong_sign_of_the_mean: ("certificate", "by_hand"),
    no_centring: ("certificate", "by_hand"),
    mask_ignored: ("certificate", "masks"),
    absolute_tolerance: ("certificate", "size"),
    precision_of_the_model_ignored: ("certificate", "precisions"),
    keys_uncentred: ("directions", "by_hand"),
    scaling_forgotten: ("head", "by_hand"),
    wrong_sign_of_the_bias: ("head", "by_hand"),
    projection_forgotten: ("certificate", "projection"),
    ties_overlooked: ("ties", ""),
    local_taken_for_global: ("certificate", "by_hand"),
    margin_relative_to_nothing: ("certificate", "by_hand"),
    what_the_output_does_not_see: ("effective", "by_hand"),
    intervals_of_the_row_alone: ("intervals", "by_hand"),
    tops_by_intervals_alone: ("tops", "by_hand"),
    bias_forgotten_in_recovery: ("recovery", "by_hand"),
    wrong_sign_in_recovery: ("recovery", "by_hand"),
    recovery_without_a_certificate: ("recovery", "cannot"),
    heads_of_a_layer_one_by_one: ("layer", "make_up"),
}


@pytest.mark.parametrize(("wrong", "where"), WRONG.items(), ids=[wrong.__name__ for wrong in WRONG])
def test_wrong_implementations_fail(wrong, where, monkeypatch):
    wrong(Patcher(monkeypatch))
    failed = next((test for test in asked(*where) if _fails(test)), None)
    assert failed is not None
    monkeypatch.undo()
    # It is the implementation that it fails for.
    failed()


def _fails(test: Callable[[], None]) -> bool:
    try:
        test()
    except FAILURES:
        return True
    return False

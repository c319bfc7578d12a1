"""The form for who does not want to choose: MGPP, with every setting still the user's."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

import mgpp
from mgpp.methods import from_dict, title_of, to_dict
from tests.test_contract import RAMP, STEPS
from tests.toy import NUM_WEIGHTS, Toy, batches


def test_it_is_what_the_card_spells_out():
    card = (Path(__file__).parents[2] / "docs" / "methods" / "mgpp.md").read_text(encoding="utf-8")
    (words,) = re.findall(r"`MGPP\((sparsity=0\.9, score=[^`]*)\)`", card)
    settings = {
        name: json.loads(value.replace("True", "true")) for name, value in re.findall(r"(\w+)=([^,\s]+)", words)
    }
    assert mgpp.recommended(sparsity=0.9) == mgpp.MGPP(**settings)


def test_it_is_mgpp_by_curvature_and_what_is_given_goes_first():
    method = mgpp.recommended(sparsity=0.9, end=0.5, strength=0.01)
    assert isinstance(method, mgpp.MGPP)
    assert (method.sparsity, method.end, method.strength) == (0.9, 0.5, 0.01)
    assert (method.score, method.decoupled) == ("curvature", True)
    assert mgpp.MGPP(sparsity=0.9).score == "magnitude"


def test_its_name_stands_for_it_and_what_is_written_is_what_it_stands_for():
    method = from_dict({"method": "recommended", "sparsity": 0.9, "strength": 0.01})
    assert method == mgpp.recommended(sparsity=0.9, strength=0.01)
    assert to_dict(method)["method"] == "mgpp"
    with pytest.raises(ValueError, match="needs a sparsity"):
        from_dict({"method": "recommended"})


def test_a_title_says_it_for_as_long_as_nothing_that_it_stands_for_is_changed():
    written = to_dict(mgpp.recommended(sparsity=0.9, end=0.5, structure="2x1"))
    assert title_of(written) == "MGPP (recommended)"
    for changed in ({"strength": 0.2}, {"score": "magnitude"}):
        assert title_of({**written, **changed}) == "MGPP"
    assert title_of(to_dict(mgpp.MGPP(sparsity=0.9))) == "MGPP"
    assert title_of(to_dict(mgpp.SoftMovement(sparsity=0.9))) == "SOFT MOVEMENT"
    assert title_of({"method": "of_tomorrow"}) == "OF TOMORROW"


def test_no_limit_is_written_as_nothing_and_a_coupled_prior_has_none():
    assert mgpp.recommended(sparsity=0.9, reach=math.inf).reach is None
    assert mgpp.recommended(sparsity=0.9, decoupled=False).reach is None
    assert from_dict({"method": "recommended", "sparsity": 0.9, "decoupled": False}).reach is None
    with pytest.raises(ValueError, match=r"reach=0\.1 limits the decoupled prior"):
        mgpp.recommended(sparsity=0.9, decoupled=False, reach=0.1)


def test_a_pattern_brings_its_sparsity_along_and_without_either_it_is_missing():
    assert mgpp.recommended(structure="2:4").sparsity == 0.5
    with pytest.raises(ValueError, match="sparsity is missing"):
        mgpp.recommended()


def test_it_counts_exactly_on_a_handful_of_rows_where_a_prior_without_reach_takes_all():
    left = {}
    for name, more in {"with": {}, "without": {"reach": None}}.items():
        model = Toy()
        optimizer, data = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0), batches()
        # As strong as a tenth is where gradients are small.
        method = mgpp.recommended(**RAMP, strength=100.0, **more)
        pruner = mgpp.Pruner(model, method, total_steps=STEPS, train_size=1)
        pruner.attach(optimizer)
        for _ in range(STEPS):
            model(**next(data))["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
        assert sum(pruner.zeros.values()) == int(method.sparsity * NUM_WEIGHTS)
        left[name] = torch.cat([weight.detach().flatten() for weight in pruner.targets.values()]).abs()
    assert left["without"].max() < 0.01 < 0.1 < left["with"].max()


def test_an_optimizer_without_second_moments_is_told_of():
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    pruner = mgpp.Pruner(model, mgpp.recommended(**RAMP), total_steps=STEPS, train_size=64)
    with pytest.raises(ValueError, match=r'set decoupled=False and score="magnitude", .*--method mgpp'):
        pruner.attach(optimizer)


def test_what_that_message_says_is_a_cure():
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    method = mgpp.recommended(**RAMP, decoupled=False, score="magnitude")
    mgpp.Pruner(model, method, total_steps=STEPS, train_size=64).attach(optimizer)
    model(**next(batches()))["loss"].backward()
    optimizer.step()

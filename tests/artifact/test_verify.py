"""What was written is read back and held against the model, tensor by tensor."""

import pytest
import torch

from mgpp.artifact import describe, save_sparse
from mgpp.artifact.verify import verify
from tests.artifact.models import make
from tests.toy import Toy


def test_an_exact_save_is_exact_and_another_model_is_not(tmp_path):
    model = make("bert")
    save_sparse(model, tmp_path)
    assert all(check.exact for check in verify(tmp_path, model).values())
    with torch.no_grad():
        model.classifier.weight[0, 0] += 0.25
    changed = {name: check for name, check in verify(tmp_path, model).items() if not check.exact}
    assert list(changed) == ["classifier.weight"]
    assert changed["classifier.weight"].max_error == pytest.approx(0.25)


def test_rounding_is_measured_and_zeros_are_counted_as_stored(tmp_path):
    model = Toy()
    model.head.weight.data[0] = torch.tensor([0.0, 1.0, -2.0, 1e-9, torch.nan, torch.inf, -torch.inf, 0.5])
    save_sparse(model, tmp_path, values="fp16")
    check = verify(tmp_path, model)["head.weight"]
    assert not check.exact
    assert 0 < check.max_error < 1e-3
    assert check.zeros == 2  # 1e-9 is nothing in fp16


def test_headers_alone_tell_what_is_stored(tmp_path):
    model = make("bert")
    summary = save_sparse(model, tmp_path, values="int8", shard_size="6KB")
    told = describe(tmp_path)
    assert {key: told[key] for key in summary} == summary
    assert (told["stored"], told["zstd"]) == (["F32", "I8"], False)
    weight = model.bert.encoder.layer[0].output.dense.weight
    assert told["kept"]["bert.encoder.layer.0.output.dense.weight"] <= int(weight.count_nonzero())
    assert told["kept"]["classifier.weight"] is None

"""What is saved comes back: exactly for fp32, rounded as promised otherwise, for every kind of model."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import nn
from transformers import AutoModelForSequenceClassification, BertModel, GenerationConfig

import mgpp
from mgpp.artifact import is_sparse, load_sparse, save_sparse
from mgpp.artifact.encoding import bits_of
from mgpp.artifact.shards import INDEX_FILE, WEIGHTS_FILE
from mgpp.layers import factorize_
from mgpp.targets import find_targets
from tests.artifact.models import MODELS, inputs_of, make
from tests.toy import Toy

HAS_ZSTD = find_spec("zstandard") is not None
NEEDS_ZSTD = pytest.param({"zstd": True}, marks=pytest.mark.skipif(not HAS_ZSTD, reason="zstandard is not installed"))


def assert_same_bits(actual: nn.Module, expected: nn.Module) -> None:
    mine, theirs = actual.state_dict(), expected.state_dict()
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        assert mine[name].dtype == value.dtype, name
        assert mine[name].shape == value.shape, name
        assert torch.equal(bits_of(mine[name].contiguous()), bits_of(value.contiguous())), name


@pytest.mark.parametrize("options", [{}, NEEDS_ZSTD, {"shard_size": "9KB"}], ids=str)
@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_of_model_comes_back_bit_for_bit(kind, options, tmp_path):
    model = make(kind)
    save_sparse(model, tmp_path, **options)
    loaded = load_sparse(tmp_path)
    assert type(loaded) is type(model)
    assert not loaded.training
    assert_same_bits(loaded, model)
    assert all(parameter.requires_grad for parameter in loaded.parameters())
    inputs = inputs_of(model)
    with torch.no_grad():
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)


@pytest.mark.parametrize("kind", [kind for kind in MODELS if "tied" in kind])
def test_tied_weights_are_stored_once_and_stay_tied(kind, tmp_path):
    model = make(kind)
    summary = save_sparse(model, tmp_path)
    loaded = load_sparse(tmp_path)
    assert summary["dense_bytes"] == sum(parameter.nbytes for parameter in model.parameters()) + _buffer_bytes(model)
    assert len(list(loaded.parameters())) == len(list(model.parameters()))
    with torch.no_grad():
        loaded.get_output_embeddings().weight.fill_(7)
    assert bool((loaded.get_input_embeddings().weight == 7).all())


def _buffer_bytes(model: nn.Module) -> int:
    names = dict(model.named_buffers())
    return sum(value.nbytes for name, value in model.state_dict().items() if name in names)


def test_a_tie_that_the_config_does_not_know_is_kept_and_one_that_was_cut_stays_cut(tmp_path):
    tied = make("bert")
    tied.bert.encoder.layer[1].output.dense.weight = tied.bert.encoder.layer[0].output.dense.weight
    save_sparse(tied, tmp_path / "tied")
    loaded = load_sparse(tmp_path / "tied").bert.encoder.layer
    assert loaded[1].output.dense.weight is loaded[0].output.dense.weight

    cut = make("bert, tied")
    cut.cls.predictions.decoder.weight = nn.Parameter(torch.randn(50, 16))
    save_sparse(cut, tmp_path / "cut")
    assert_same_bits(load_sparse(tmp_path / "cut"), cut)


def test_every_bit_pattern_comes_back(tmp_path):
    model = make("bert")
    weight = model.bert.encoder.layer[0].output.dense.weight
    odd = torch.tensor([0x7FC00001, -0x400001, 0x7F800000, -0x800000, 1, -0x7FFFFFFF, -0x80000000], dtype=torch.int32)
    weight.data.view(-1)[: len(odd)] = odd.view(torch.float32)  # two NaNs, ±inf, the smallest subnormals, -0.0
    save_sparse(model, tmp_path)
    assert_same_bits(load_sparse(tmp_path), model)


def test_weights_that_were_multiplied_by_a_mask_stay_small_and_keep_their_signed_zeros(tmp_path):
    model = make("bert")
    plain = save_sparse(model, tmp_path / "plain")["bytes"]
    for weight in find_targets(model).values():
        weight.data[weight == 0] *= torch.where(torch.rand(int((weight == 0).sum())) < 0.5, -1.0, 1.0)
    signed = save_sparse(model, tmp_path / "signed")["bytes"]
    assert signed - plain < 4096 // 8 + 12 * 250  # a bit a weight, and a line in the header for each of 12
    assert_same_bits(load_sparse(tmp_path / "signed"), model)


@pytest.mark.parametrize(
    ("values", "dtype", "step"), [("bf16", torch.bfloat16, 2**-8), ("fp16", torch.float16, 2**-11)]
)
def test_half_precision_rounds_matrices_and_leaves_vectors(values, dtype, step, tmp_path):
    model = make("bert")
    save_sparse(model, tmp_path, values=values)
    for name, value in load_sparse(tmp_path).state_dict().items():
        mine = model.state_dict()[name]
        expected = mine.to(dtype).to(torch.float32) if mine.ndim > 1 else mine
        assert torch.equal(value, expected), name
        torch.testing.assert_close(value, mine, rtol=step, atol=1e-7)


def test_int8_rounds_each_row_to_127_steps_and_embeddings_only_when_asked(tmp_path):
    model = make("bert")
    save_sparse(model, tmp_path / "weights", values="int8")
    save_sparse(model, tmp_path / "all", values="int8", embeddings="int8")
    saved, some, everything = (
        m.state_dict() for m in (model, *(load_sparse(tmp_path / n) for n in ("weights", "all")))
    )
    for name, value in saved.items():
        step = value.abs().amax(dim=-1, keepdim=True) / 127 * 0.5001 if value.ndim > 1 else torch.zeros(1)
        assert bool(((everything[name] - value).abs() <= step).all()), name
        exact = value.ndim < 2 or "embeddings" in name
        assert torch.equal(some[name], value) == exact, name


def test_a_bf16_model_is_not_widened_and_exact_in_bf16(tmp_path):
    model = make("llama, bf16")
    exact, same = (save_sparse(model, tmp_path / values, values=values)["bytes"] for values in ("fp32", "bf16"))
    assert exact == same
    assert_same_bits(load_sparse(tmp_path / "bf16"), model)


def test_rounding_that_overflows_is_refused_with_the_name_and_the_cure(tmp_path):
    model = make("bert")
    model.bert.pooler.dense.weight.data[0, 0] = 1e5
    with pytest.raises(ValueError, match=r"bert.pooler.dense.weight: 100000 is more than F16 can hold: use bf16"):
        save_sparse(model, tmp_path / "out", values="fp16")
    model.bert.pooler.dense.weight.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"bert\.pooler\.dense\.weight: it has NaN"):
        save_sparse(model, tmp_path / "out", values="int8")
    assert not (tmp_path / "out").exists()


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        save_sparse(make("bert"), tmp_path / name)
    assert (tmp_path / "one" / WEIGHTS_FILE).read_bytes() == (tmp_path / "two" / WEIGHTS_FILE).read_bytes()


def test_any_safetensors_reader_opens_the_file_and_finds_dense_tensors_by_name(tmp_path):
    model = make("bert")
    save_sparse(model, tmp_path)
    with safe_open(tmp_path / WEIGHTS_FILE, "pt") as file:
        assert file.metadata()["format"] == "mgpp-sparse"
        assert torch.equal(file.get_tensor("classifier.weight"), model.classifier.weight)
        assert file.get_tensor("bert.encoder.layer.0.output.dense.weight#mask").shape == (64,)


def test_from_pretrained_refuses_the_folder_instead_of_drawing_weights(tmp_path):
    save_sparse(make("bert"), tmp_path)
    with pytest.raises(OSError, match=r"model\.safetensors"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path)


def test_a_loaded_model_saves_and_loads_as_any_other(tmp_path):
    model = make("bert")
    save_sparse(model, tmp_path / "sparse")
    load_sparse(tmp_path / "sparse").save_pretrained(tmp_path / "plain")
    assert_same_bits(AutoModelForSequenceClassification.from_pretrained(tmp_path / "plain"), model)


def test_the_generation_config_travels(tmp_path):
    model = make("gpt2, tied")
    model.generation_config = GenerationConfig(max_new_tokens=3, do_sample=True, temperature=0.5, eos_token_id=2)
    save_sparse(model, tmp_path)
    loaded = load_sparse(tmp_path).generation_config
    assert (loaded.max_new_tokens, loaded.temperature, loaded.eos_token_id) == (3, 0.5, 2)


def test_shards_are_named_counted_and_indexed_and_an_earlier_save_is_replaced(tmp_path):
    save_sparse(make("bert"), tmp_path, shard_size="4KB")
    many = sorted(path.name for path in tmp_path.glob("model.sparse-*"))
    index = json.loads((tmp_path / INDEX_FILE).read_text())
    assert many == list(index["shards"]) != []
    assert many[0] == f"model.sparse-00001-of-{len(many):05d}.safetensors"
    assert index["weight_map"].keys() == make("bert").state_dict().keys()
    model = make("bert", seed=1)
    save_sparse(model, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", WEIGHTS_FILE}
    assert_same_bits(load_sparse(tmp_path), model)


def test_a_low_rank_model_comes_back_with_its_layers(tmp_path):
    model = make("bert")
    factorize_(model, find_targets(model), ratio=0.3)
    save_sparse(model, tmp_path)
    loaded = load_sparse(tmp_path)
    assert_same_bits(loaded, model)
    assert isinstance(loaded.bert.encoder.layer[0].output.dense, mgpp.LowRankSparse)
    assert_same_bits(mgpp.merge_(loaded), mgpp.merge_(model))


def test_a_model_of_ones_own_is_loaded_into_one_that_is_given(tmp_path):
    model = Toy(seed=0)
    model.register_buffer("steps", torch.tensor(7))
    save_sparse(model, tmp_path)
    assert not (tmp_path / "config.json").exists()
    other = Toy(seed=1)
    other.register_buffer("steps", torch.tensor(0))
    assert load_sparse(tmp_path, model=other) is other
    assert_same_bits(other, model)
    with pytest.raises(ValueError, match=r"holds no config.json: give the model to load into \(model=\)"):
        load_sparse(tmp_path)


def test_a_class_that_transformers_does_not_have_is_loaded_into_one_that_is_given(tmp_path):
    class Mine(BertModel):
        pass

    model = Mine(make("bert").config)
    save_sparse(model, tmp_path)
    with pytest.raises(ValueError, match=r"\['Mine'\] is no model of transformers .*: make the model yourself"):
        load_sparse(tmp_path)
    assert_same_bits(load_sparse(tmp_path, model=Mine(model.config)), model)


def test_a_compiled_model_and_compiled_blocks_are_saved_under_their_plain_names(tmp_path):
    model = make("bert")
    model.bert.encoder.layer[0] = torch.compile(model.bert.encoder.layer[0])
    save_sparse(torch.compile(model), tmp_path)
    assert_same_bits(load_sparse(tmp_path), make("bert"))


def test_a_model_that_its_config_would_not_make_is_refused(tmp_path):
    model = make("bert")
    model.classifier = nn.Linear(16, 5)
    with pytest.raises(
        ValueError, match=r"its config gives classifier.weight the shape \[3, 16\] and it has \[5, 16\]"
    ):
        save_sparse(model, tmp_path / "out")
    model = make("bert")
    model.extra = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"its config gives extra.weight the shape none"):
        save_sparse(model, tmp_path / "out")
    with pytest.raises(ValueError, match=r"query.weight the shape \[16, 16\] and it has none; save it before that"):
        save_sparse(mgpp.accelerate(make("bert"), path="csr", least_gain=0), tmp_path / "out")
    with torch.device("meta"):
        empty = BertModel(model.config)
    with pytest.raises(ValueError, match="is on the meta device"):
        save_sparse(empty, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"values": "int4"}, "values='int4' is not one of fp32, bf16, fp16, int8"),
        ({"embeddings": "fp8"}, "embeddings='fp8' is not one of"),
        ({"shard_size": "many"}, "shard_size='many': a number of bytes"),
        ({"shard_size": 0}, "shard_size=0: a number of bytes"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        save_sparse(make("bert"), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_folders_without_a_sparse_model_are_refused(tmp_path):
    assert not is_sparse(tmp_path)
    with pytest.raises(ValueError, match=f"holds no {WEIGHTS_FILE}"):
        load_sparse(tmp_path)
    for absent in (tmp_path / "absent", "absent", "./absent", "a/b/c"):
        with pytest.raises(FileNotFoundError, match="is no folder"):
            load_sparse(absent)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="is a file: give a folder"):
        save_sparse(Toy(), tmp_path / "file")


def test_the_tokenizer_goes_along(tiny_bert: Path, tmp_path):
    from transformers import AutoTokenizer

    save_sparse(make("bert"), tmp_path, tokenizer=AutoTokenizer.from_pretrained(tiny_bert))
    assert AutoTokenizer.from_pretrained(tmp_path)("the film")["input_ids"] == [2, 5, 6, 3]

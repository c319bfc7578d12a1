"""What only a GPU can show. Skipped, and said so, without one."""

import pytest
import torch
from torch import nn
from transformers import BertConfig

import mgpp
from mgpp import kernels
from mgpp.bench import overhead
from mgpp.bench.overhead import Shape
from mgpp.functional import select
from mgpp.functional.score import curvature

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

RAMP = {"sparsity": 0.9, "start": 2, "end": 6, "every": 2}


class Stack(nn.Module):
    """Blocks of 256 × 256: 1,048,576 weights to prune."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(2)
        )
        self.head = nn.Linear(256, 4)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def start(optimizer_of, method=None, steps: int = 40, looks: int = 0):
    torch.manual_seed(0)
    model = Stack().cuda()
    optimizer = optimizer_of(model.parameters())
    records: list[dict] = []
    method = method or mgpp.MGPP(**RAMP, spike_var=1e-6)
    pruner = mgpp.Pruner(model, method, total_steps=steps, train_size=1000, on_record=records.append, looks=looks)
    pruner.attach(optimizer)
    return model, optimizer, pruner, records


def batch():
    generator = torch.Generator("cuda").manual_seed(1)
    x = torch.randn(64, 256, device="cuda", generator=generator)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


def step(model, optimizer, data) -> None:
    nn.functional.cross_entropy(model(data[0]), data[1]).backward()
    optimizer.step()
    optimizer.zero_grad()


def step_without_waiting(optimizer) -> None:
    """The host comes back from the step while the device still sleeps."""
    torch.cuda.synchronize()
    torch.cuda._sleep(1_000_000_000)  # half a second
    slept = torch.cuda.Event()
    slept.record()
    optimizer.step()
    assert not slept.query()
    optimizer.zero_grad()


def theirs(params):
    return torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01, fused=True)


def apart(params, **more):
    """Two groups that learn at different rates, and torch's AdamW of many launches, whose counters lie on the host."""
    params = list(params)
    groups = [{"params": params[::2], "lr": 2e-3}, {"params": params[1::2], "eps": 1e-7}]
    return torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.01, **more)


def ours(params):
    return mgpp.AdamW(params, lr=1e-3, weight_decay=0.01)


@pytest.mark.parametrize("optimizer_of", [theirs, ours])
@pytest.mark.parametrize(
    "more", [{}, {"score": "curvature"}, {"decoupled": True}, {"score": "curvature", "fix_after_ramp": True}]
)
def test_every_event_leaves_exactly_the_count_asked(optimizer_of, more):
    method = mgpp.MGPP(**RAMP, spike_var=1e-6, **more)
    model, optimizer, pruner, records = start(optimizer_of, method)
    data = batch()
    for _ in range(40):
        step(model, optimizer, data)
        pruner.settle()
        if pruner.schedule.is_event(pruner.t):
            asked = int(pruner.schedule.sparsity_at(pruner.t) * pruner.num_weights)
            assert sum(pruner.zeros.values()) == asked
            assert records[-1]["zeros"] == pruner.zeros
            assert records[-1]["step"] == pruner.t


@pytest.mark.parametrize("more", [{}, {"score": "curvature"}, {"decoupled": True}])
def test_the_fused_optimizer_trains_as_torchs_does(more):
    method = mgpp.MGPP(**RAMP, spike_var=1e-6, **more)
    runs = []
    for optimizer_of in (theirs, ours):
        model, optimizer, _, _ = start(optimizer_of, method)
        data = batch()
        for _ in range(12):
            step(model, optimizer, data)
        runs.append({name: value.detach() for name, value in model.named_parameters()})
    for name, value in runs[0].items():
        differing = (value - runs[1][name]).abs() > 1e-4
        # A weight whose score lies within rounding of the cut may fall on either side of it.
        assert differing.float().mean() < 1e-3, name


@pytest.mark.parametrize("looks", [0, 1000])
@pytest.mark.parametrize("optimizer_of", [theirs, apart, ours])
@pytest.mark.parametrize("more", [{}, {"score": "curvature"}, {"decoupled": True}])
def test_steps_after_the_ramp_never_wait_for_the_device(optimizer_of, more, looks):
    method = mgpp.MGPP(**RAMP, spike_var=1e-6, **more)
    model, optimizer, _, _ = start(optimizer_of, method, steps=1000, looks=looks)
    data = batch()
    for _ in range(12):
        step(model, optimizer, data)
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(data[0]), data[1])
        loss.backward()
        held = [param.grad for param in model.parameters()]
        for param in model.parameters():
            param.grad = param.grad.clone()  # gradients that lie somewhere else at every step
        step_without_waiting(optimizer)
        del held


@pytest.mark.parametrize("optimizer_of", [theirs, apart])
def test_the_decoupled_pull_is_the_twins_and_takes_no_memory(optimizer_of, monkeypatch):
    method = mgpp.MGPP(sparsity=0.0, start=2, end=6, every=1000, spike_var=1e-6, decoupled=True)
    model, optimizer, pruner, _ = start(optimizer_of, method)
    data = batch()
    for _ in range(6):
        step(model, optimizer, data)
    nn.functional.cross_entropy(model(data[0]), data[1]).backward()
    weights = list(pruner.targets.values())
    before = [weight.detach().clone() for weight in weights]

    def pull() -> tuple[list[torch.Tensor], int]:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        allocated = torch.cuda.memory_allocated()
        with torch.no_grad():
            pruner.recipe.penalty.after_step(pruner._step(pruner.t))
            extra = torch.cuda.max_memory_allocated() - allocated
            pulled = [weight.clone() for weight in weights]
            for weight, old in zip(weights, before, strict=True):
                weight.copy_(old)
        return pulled, extra

    fast, few = pull()
    monkeypatch.setattr(kernels, "_laid_out", lambda *args, **more: None)
    plain, many = pull()
    for actual, wanted, old in zip(fast, plain, before, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-6)
        assert not torch.equal(actual, old)
    assert few < 1 << 16 < many


HELD = {
    "hold_mask": mgpp.HoldMask(sparsity=0.9, start=2, end=6, every=2),
    "gmp": mgpp.GMP(**RAMP, hold=True),
    "mgpp": mgpp.MGPP(**RAMP, spike_var=1e-6, fix_after_ramp=True),
    "prior_annealing": mgpp.PriorAnnealing(**RAMP),
}


@pytest.mark.parametrize("optimizer_of", [theirs, ours])
@pytest.mark.parametrize("name", HELD)
def test_a_mask_is_held_to_the_bit_and_nobody_waits_for_the_device(name, optimizer_of):
    model, optimizer, pruner, records = start(optimizer_of, HELD[name], steps=1000)
    data = batch()
    for _ in range(12):
        step(model, optimizer, data)
    pruner.settle()
    told = len(records)
    gone = [weight == 0 for weight in pruner.targets.values()]
    assert sum(int(zero.sum()) for zero in gone) == int(0.9 * pruner.num_weights)
    for _ in range(3):
        nn.functional.cross_entropy(model(data[0]), data[1]).backward()
        step_without_waiting(optimizer)
    assert all(torch.equal(weight == 0, zero) for weight, zero in zip(pruner.targets.values(), gone, strict=True))
    assert len(records) == told


LEARNED = {
    "movement": mgpp.Movement(**RAMP),
    "movement global": mgpp.Movement(**RAMP, scope="global"),
    "soft movement": mgpp.SoftMovement(**RAMP),
    "soft movement, original": mgpp.SoftMovement(**RAMP, exact=False),
    "losparse": mgpp.LoSparse(**RAMP),
}


@pytest.mark.parametrize("name", LEARNED)
def test_learned_masks_and_whole_rows_are_exact_and_nobody_waits_for_the_device(name):
    torch.manual_seed(0)
    model = Stack().cuda()
    records: list[dict] = []
    pruner = mgpp.Pruner(model, LEARNED[name], total_steps=1000, train_size=1000, on_record=records.append)
    optimizer = theirs(model.parameters())  # after the pruner, which may add parameters
    pruner.attach(optimizer)
    data = batch()
    for _ in range(12):
        step(model, optimizer, data)
    for _ in range(3):
        nn.functional.cross_entropy(model(data[0]), data[1]).backward()
        step_without_waiting(optimizer)
    pruner.settle()
    assert records[-1]["zeros"] == pruner.zeros
    if "original" not in name:
        asked = int(0.9 * pruner.num_weights) + pruner.num_added
        assert asked <= sum(pruner.zeros.values()) < asked + (1024 if name == "losparse" else 1)


@pytest.mark.parametrize("case", ["movement", "movement global", "soft movement"])
def test_learned_masks_on_a_gpu_are_those_the_readable_twins_choose(case, monkeypatch):
    runs = []
    for fused in (True, False):
        if not fused:
            monkeypatch.setattr(kernels, "_laid_out", lambda *args, **more: None)
        model, optimizer, pruner, _ = start(lambda params: torch.optim.SGD(params, lr=0.1), LEARNED[case])
        data = batch()
        for _ in range(10):
            step(model, optimizer, data)
        runs.append((pruner.zeros, [weight.detach() == 0 for weight in pruner.targets.values()]))
    assert runs[0][0] == runs[1][0] or case != "movement"
    for mine, wanted in zip(runs[0][1], runs[1][1], strict=True):
        # A score within rounding of the cut may fall on either side of it.
        assert (mine != wanted).float().mean() < 1e-3


@pytest.mark.parametrize("name", ["gmp", "mgpp"])
def test_a_held_mask_on_the_ramp_prunes_what_the_readable_twin_would(name):
    model, optimizer, pruner, _ = start(theirs, HELD[name], steps=1000)
    data = batch()
    for _ in range(8):
        step(model, optimizer, data)
        if pruner.schedule.is_event(pruner.t):
            asked = int(pruner.schedule.sparsity_at(pruner.t) * pruner.num_weights)
            assert sum(pruner.zeros.values()) == asked


@pytest.mark.parametrize("kernel", ["magnitude", "curvature"])
def test_a_recorded_event_follows_the_weights_where_they_go(kernel):
    generator = torch.Generator("cuda").manual_seed(0)
    scratch: dict = {}
    for turn in range(8):  # from the third on it is replayed, over other tensors and another count each time
        weights = [torch.randn(size, device="cuda", generator=generator) for size in (70_001, 8, 131_072)]
        moments = [weight.abs() + 0.1 for weight in weights]
        factor = torch.tensor(0.5 + turn / 16)
        more: dict = {}
        if kernel == "curvature":
            more = {"score": curvature, "inputs": [(moment, factor) for moment in moments]}
        k = 1000 * (turn // 4 + 1)
        expected = [weight.clone() for weight in weights]
        plain = {key: [(v, f.cuda()) for v, f in value] if key == "inputs" else value for key, value in more.items()}
        select.zero_smallest_(expected, k, **plain)
        kernels.zero_smallest_(weights, k, kernel=kernel, scratch=scratch, **more)
        assert all(torch.equal(a, b) for a, b in zip(weights, expected, strict=True))
    assert scratch["selection"].recorded._graphs


def test_a_look_on_the_device_tells_what_one_on_the_host_would():
    model, optimizer, pruner, records = start(theirs, steps=20, looks=20)
    data = batch()
    for _ in range(20):
        step(model, optimizer, data)
        pruner.settle()
        if pruner.schedule.is_event(pruner.t):
            on_host = pruner.survey.sample([weight.cpu() for weight in pruner.targets.values()])
            torch.testing.assert_close(pruner.survey.sample(list(pruner.targets.values())).cpu(), on_host)
            assert sum(records[-1]["look"]["sizes"]["after"]) == int(on_host.count_nonzero())


@pytest.mark.parametrize("optimizer_of", [theirs, ours])
def test_less_than_a_mebibyte_is_taken_beyond_weights_gradients_and_moments(optimizer_of):
    model, optimizer, _, _ = start(optimizer_of, steps=1000)
    data = batch()
    for _ in range(12):
        step(model, optimizer, data)
    optimizer.zero_grad(set_to_none=False)
    nn.functional.cross_entropy(model(data[0]), data[1]).backward()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    optimizer.step()
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() - before < 1 << 20


@pytest.mark.parametrize("decoupled", [False, True])
def test_a_whole_step_can_be_recorded_in_a_cuda_graph_after_the_ramp(decoupled):
    def capturable(params):
        return apart(params, capturable=True)

    method = mgpp.MGPP(**RAMP, spike_var=1e-6, decoupled=decoupled)
    model, optimizer, pruner, _ = start(capturable, method, steps=1000)
    data = batch()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(12):
            step(model, optimizer, data)
        optimizer.zero_grad(set_to_none=False)
    torch.cuda.current_stream().wait_stream(side)
    pruner.settle()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        nn.functional.cross_entropy(model(data[0]), data[1]).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    before = [weight.detach().clone() for weight in pruner.targets.values()]
    for _ in range(5):
        graph.replay()
    assert sum(pruner.zeros.values()) == int(0.9 * pruner.num_weights)
    assert not all(torch.equal(a, b) for a, b in zip(before, pruner.targets.values(), strict=True))


def test_a_compiled_model_is_pruned_under_its_own_names():
    torch.manual_seed(0)
    model = Stack().cuda()
    compiled = torch.compile(model)
    optimizer = ours(compiled.parameters())
    pruner = mgpp.Pruner(compiled, mgpp.MGPP(**RAMP), total_steps=12, train_size=1000)
    pruner.attach(optimizer)
    data = batch()
    for _ in range(12):
        step(compiled, optimizer, data)
    assert sum(pruner.zeros.values()) == int(0.9 * pruner.num_weights)
    assert set(pruner.targets) < set(dict(model.named_parameters()))


def test_a_loss_that_is_not_finite_is_noticed_before_a_save():
    model, optimizer, pruner, _ = start(ours)
    data = batch()
    step(model, optimizer, data)
    (nn.functional.cross_entropy(model(data[0]), data[1]) * float("nan")).backward()
    # At once if the number has arrived, else before a save.
    with pytest.raises(FloatingPointError, match="step 2"):  # noqa: PT012
        optimizer.step()
        pruner.state_dict()


@pytest.mark.parametrize("optimizer_of", [theirs, ours])
def test_fp16_with_a_scaler_prunes_exactly(optimizer_of):
    model, optimizer, pruner, _ = start(optimizer_of)
    data = batch()
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)  # overflows at first: those steps must not count
    taken = 0
    while pruner.t < 40:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(data[0]), data[1])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        taken += 1
        assert taken < 100
    assert taken > 40
    assert sum(pruner.zeros.values()) == int(0.9 * pruner.num_weights)


def test_tensors_the_kernels_cannot_take_are_selected_all_the_same():
    """Odd shapes, a weight that is not aligned, and a transposed one: the readable twin takes over, same result."""
    base = torch.randn(1001 * 513 + 1, device="cuda")
    odd = [base[1:].view(1001, 513), torch.randn(64, 33, device="cuda").t()]
    expected = [weight.clone() for weight in odd]
    from mgpp import kernels
    from mgpp.functional.select import zero_smallest_

    cut = zero_smallest_(expected, 400_000)
    taken = kernels.zero_smallest_(odd, 400_000, scratch={})
    assert taken == cut
    for actual, wanted in zip(odd, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["plain", "mgpp, mgpp.AdamW", "movement", "losparse"])
def test_the_benchmark_takes_the_same_gradients_from_a_graph(name):
    device = torch.device("cuda")
    config = BertConfig(
        vocab_size=30_000, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    side = overhead._Side(Shape(config, 4, 16), device, overhead._sides(device, naive=False)[name])
    side.grow_old()
    side.take_gradients()
    expected = [param.grad.clone() for param in side.model.parameters() if param.grad is not None]
    side.record()
    for _ in range(2):
        side.take_gradients()
    actual = [param.grad for param in side.model.parameters() if param.grad is not None]
    torch.testing.assert_close(actual, expected, rtol=1e-2, atol=1e-4)
    side.step()
    assert side.pruner is None or side.pruner.t == overhead.FIRST_STEPS + 1

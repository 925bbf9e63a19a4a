"""Devices: which one is chosen, and what is said when one is missing. Only the CPU can be run here."""

import numpy as np
import pytest

from handful.backbones import devices, load_backbone
from handful.backbones.devices import DEVICES, candidates, check_device, on_device

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
DML, COREML = "DmlExecutionProvider", "CoreMLExecutionProvider"


@pytest.mark.parametrize(
    ("device", "available", "order"),
    [
        ("auto", [CPU], ["cpu"]),
        ("auto", [CPU, CUDA], ["cuda", "cpu"]),
        ("auto", ["AzureExecutionProvider", CPU], ["cpu"]),
        ("auto", [COREML, CPU], ["coreml", "cpu"]),
        ("auto", [CPU, DML, CUDA], ["cuda", "directml", "cpu"]),
        ("cpu", [CUDA, CPU], ["cpu"]),
        ("directml", [CUDA, DML, CPU], ["directml"]),
    ],
)
def test_the_order_in_which_devices_are_tried(device, available, order):
    assert candidates(device, available) == order


@pytest.mark.parametrize(
    ("device", "package"), [("cuda", "onnxruntime-gpu"), ("directml", "onnxruntime-directml"), ("coreml", "on a Mac")]
)
def test_a_missing_device_names_the_package(device, package):
    with pytest.raises(ValueError, match=rf"'{device}' is not one .*\(cpu\): .*pip install .*{package}"):
        candidates(device, [CPU])


def test_unknown_devices_list_the_known_ones(monkeypatch):
    with pytest.raises(ValueError, match="no device 'gpu': choose from auto, cpu, cuda, directml, coreml"):
        load_backbone("pixels", device="gpu")
    monkeypatch.setenv("HANDFUL_DEVICE", "gpu")
    with pytest.raises(ValueError, match="no device 'gpu'"):
        check_device(None)
    assert check_device("cpu") == "cpu"  # an argument wins over the environment
    monkeypatch.delenv("HANDFUL_DEVICE")
    assert check_device(None) == "auto"
    assert set(DEVICES) == {"auto", "cpu", "cuda", "coreml", "directml"}


class Network:
    """Stands for an open network: its output is its input times a factor."""

    name = "network.onnx"

    def __init__(self, factor: float):
        self.factor = factor

    def run(self, outputs, inputs):
        return [self.factor * inputs["x"]]


@pytest.fixture
def with_cuda(monkeypatch):
    runtime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(runtime, "get_available_providers", lambda: [CUDA, CPU])
    return {"x": np.arange(1, 5, dtype=np.float32)[None]}


def test_a_device_with_the_features_of_the_cpu_is_taken(with_cuda):
    cpu, gpu = Network(1.0), Network(1.0005)
    asked = []

    def reopen(provider):
        asked.append(provider)
        return gpu

    assert on_device(cpu, reopen, "auto", with_cuda) == (gpu, "cuda")
    assert asked == [CUDA]
    assert on_device(cpu, reopen, "cpu", with_cuda) == (cpu, "cpu")
    assert asked == [CUDA]


@pytest.mark.parametrize("factor", [1.1, np.nan])
def test_a_device_with_other_features_is_left_out_or_refused(with_cuda, factor):
    cpu = Network(1.0)
    assert on_device(cpu, lambda provider: Network(factor), "auto", with_cuda) == (cpu, "cpu")
    with pytest.raises(ValueError, match=r"network.onnx cannot run on 'cuda': its features differ .* use the device"):
        on_device(cpu, lambda provider: Network(factor), "cuda", with_cuda)


def test_a_device_that_cannot_open_the_network_is_left_out_or_refused(with_cuda):
    def reopen(provider):
        raise ValueError("its libraries are missing")

    cpu = Network(1.0)
    assert on_device(cpu, reopen, "auto", with_cuda) == (cpu, "cpu")
    with pytest.raises(ValueError, match="cannot run on 'cuda': its libraries are missing"):
        on_device(cpu, reopen, "cuda", with_cuda)


def test_a_provider_that_onnx_runtime_does_not_have_is_not_replaced_in_silence(monkeypatch):
    """ONNX Runtime warns and takes the CPU; here it is an error, which "auto" answers with the CPU."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    if CUDA in runtime.get_available_providers():
        pytest.skip("there is CUDA here")
    monkeypatch.setattr(runtime, "get_available_providers", lambda: [CUDA, CPU])
    assert load_backbone("omniglot").device == "cpu"
    with pytest.raises(ValueError, match="omniglot cannot run on 'cuda'"):
        load_backbone("omniglot", device="cuda")


def test_the_device_is_said_and_is_no_part_of_the_fingerprint(tmp_path):
    pytest.importorskip("onnxruntime")
    from PIL import Image

    from handful.backbones import embed_pictures

    Image.new("RGB", (20, 20), "red").save(tmp_path / "a.png")
    named, default = load_backbone("omniglot", device="cpu"), load_backbone("omniglot")
    assert named.fingerprint == default.fingerprint
    assert embed_pictures([tmp_path / "a.png"], named, cache=False).source["device"] == "cpu"
    assert load_backbone("pixels").device == "cpu"


def test_devices_belong_to_the_machine_and_not_to_a_record():
    from handful.project.items import lasting_options

    assert lasting_options({"size": 224, "preset": "clip", "device": "cuda"}) == {"size": 224, "preset": "clip"}
    assert devices.PROVIDERS["cpu"] == CPU

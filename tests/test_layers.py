"""Imports only go one way, and the package stays light to import."""

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import matcha_gnn
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.gamma.strategies import STRATEGIES

ROOT = Path(matcha_gnn.__file__).parent

# A module may import from its own level and from lower ones. The longest beginning of its name
# decides: packages have modules on several levels where the data flow passes them more than once.
LEVELS = {
    "errors": 0,
    "class_names": 0,
    "typing": 0,
    "registry": 0,
    "streams": 0,
    "functional": 0,
    "monitoring": 0,
    "kernels": 0,
    "io": 0,
    "graphs": 1,
    "hops": 2,
    "io.graphfiles": 2,
    "backbones": 3,
    "io.tensorfiles": 4,
    "methods": 4,
    "losses": 5,
    "evidence": 5,
    "io.models": 6,
    "graphs.stored": 6,
    "result": 6,
    "strategies": 7,
    "questions": 8,
    "adaptation": 8,
    "metrics": 9,
    "datasets": 10,
    "transforms": 10,
    "diagnosis": 11,
    "train": 11,
    "testing": 12,
    "watch": 12,
    "report": 13,
    "io.asked": 13,
    "io.outputs": 13,
    "graphs.sharded": 13,
    "cli": 14,
    "__main__": 15,
}
# Imports that go up, inside a function: the result draws its own page, asks questions and takes
# candidates on demand, questions and a watch draw theirs, and a graph on a GPU without room for its
# hops keeps them on the host, as stored graphs do.
ALLOWED_UP = {
    ("result", "report"),
    ("result", "questions"),
    ("result", "strategies"),
    ("questions", "report"),
    ("watch", "report"),
    ("graphs", "graphs.stored"),
}


def modules() -> list[Path]:
    return [p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py"]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {name_of(path) for path in modules()}


def layer_of(name: str) -> str:
    beginnings = [name]
    while "." in beginnings[-1]:
        beginnings.append(beginnings[-1].rpartition(".")[0])
    return next((b for b in beginnings if b in LEVELS), name)


def imported(path: Path) -> set[str]:
    """Modules of this package that a module imports, but for types alone."""
    found = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for inner in ast.walk(node):
                inner.for_types = True
    for node in ast.walk(tree):
        if getattr(node, "for_types", False):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "matcha_gnn":
            inside = node.module.partition(".")[2]
            names = [f"{inside}.{alias.name}".lstrip(".") for alias in node.names]
            found |= {name if name in NAMES else inside for name in names}
        elif isinstance(node, ast.Import):
            names = [alias.name.partition(".") for alias in node.names]
            found |= {rest for first, _, rest in names if first == "matcha_gnn"}
    return found - {""}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_only(path):
    own = layer_of(name_of(path))
    assert own in LEVELS, f"{own} has no level: add it to LEVELS"
    for other in map(layer_of, imported(path)):
        up = LEVELS[other] > LEVELS[own]
        assert not up or (own, other) in ALLOWED_UP, f"{own} imports {other}, which lies above it"


def test_at_most_a_dozen_modules_at_the_top():
    assert len([p for p in ROOT.glob("*.py") if not p.name.startswith("__")]) <= 12


def test_files_are_short():
    long = {p.name for p in ROOT.rglob("*.py") if len(p.read_text().splitlines()) > 400}
    assert not long


def nodes_in(source: str | Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source if isinstance(source, str) else source.read_text())))


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Names, attributes and what is imported."""
    found = set()
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                found.add(name)
    return found


CONCRETE = {part.__name__ for part in (*METHODS.values(), *BACKBONES.values())}
TRIED = {part.__name__ for part in STRATEGIES.values()}


def defaults_in(nodes: Iterable[ast.AST]) -> list[ast.AST]:
    """What stands for arguments that are not given, and in fields of a dataclass."""
    roots: list[ast.AST | None] = []
    for node in nodes:
        match node:
            case ast.arguments(defaults=plain, kw_defaults=named):
                roots += [*plain, *named]
            case ast.ClassDef(body=body):
                roots += [line.value for line in body if isinstance(line, ast.AnnAssign)]
    return [inner for root in roots if root for inner in ast.walk(root)]


def outside_defaults(source: str | Path, concrete: set[str]) -> set[str]:
    """Which of some classes a module names elsewhere than in imports, defaults and its own."""
    nodes = nodes_in(source)
    allowed = {*map(id, defaults_in(nodes))}
    own = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    imports = (ast.alias, ast.Import, ast.ImportFrom)
    used = [n for n in nodes if id(n) not in allowed and not isinstance(n, imports)]
    return names_in(used) & concrete - own


def test_what_adapts_knows_no_method_or_backbone_by_name():
    for name in ("strategies/guarded.py", "strategies/run.py", "strategies/base.py"):
        assert not names_in(nodes_in(ROOT / name)) & CONCRETE, name
    # `adapt` has a default of its own for what is not given.
    assert outside_defaults(ROOT / "adaptation.py", CONCRETE) == set()
    assert names_in(nodes_in(ROOT / "adaptation.py")) & CONCRETE == {"ERM"}


def test_guarded_names_other_strategies_in_its_defaults_only():
    assert outside_defaults(ROOT / "strategies/guarded.py", TRIED) == set()
    for name in ("strategies/run.py", "strategies/base.py"):
        assert not names_in(nodes_in(ROOT / name)) & TRIED, name


@pytest.mark.parametrize(
    "broken",
    [
        "def run(model):\n    return isinstance(model, GPRGNN)",
        "def run(task):\n    return mg.T3A()",
        "def run(task):\n    kind: type = Matcha",
    ],
)
def test_the_guard_on_names_sees_them(broken):
    assert outside_defaults(broken, CONCRETE | TRIED)
    assert not outside_defaults("def adapt(method=ERM(), strategy=Matcha()): ...", CONCRETE | TRIED)


def reads_labels(source: str | Path) -> bool:
    """Whether a field y is read, by a dot, by its name in brackets, or by `getattr` and such."""
    for node in nodes_in(source):
        match node:
            case ast.Attribute(attr="y") | ast.Subscript(slice=ast.Constant(value="y")):
                return True
            case ast.Call(args=given) if any(ast.unparse(each) == "'y'" for each in given):
                return True
    return False


@pytest.mark.parametrize(
    "broken",
    ["data.y", 'getattr(data, "y")', 'getattr(data, "y", None)', 'data["y"]', 'fields.get("y")']
    + ['operator.attrgetter("y")(data)', 'data.to_dict().pop("y", None)'],
)
def test_the_guard_on_labels_sees_every_way_to_read_them(broken):
    assert reads_labels(broken)


def test_only_datasets_metrics_and_training_read_labels():
    summarising = ROOT / "evidence" / "summarising.py"
    readers = {part_of(path) for path in modules() if reads_labels(path) and path != summarising}
    # The command hands labels on to be counted; testing compares with and without them. The summary
    # of a source needs its labels.
    assert readers <= {"datasets", "transforms", "metrics", "train", "cli", "testing"}


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_or_the_command_does_not_import_torch():
    assert "torch" not in loaded_after("import matcha_gnn")
    assert "torch" not in loaded_after("import matcha_gnn.cli")


def test_using_the_library_does_not_import_plotting_command_line_or_compilers():
    loaded = loaded_after("import matcha_gnn as mg; mg.adapt; mg.fit; mg.GPRGNN")
    assert not loaded & {"matplotlib", "typer", "triton", "torch_geometric"}


def test_every_public_name_resolves():
    assert {name for name in matcha_gnn.__all__ if getattr(matcha_gnn, name) is None} == set()


def test_adapt_is_the_function_whatever_was_imported_first():
    code = "import matcha_gnn.adaptation, matcha_gnn as mg; print(callable(mg.adapt))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_the_library_works_without_the_paper():
    code = (
        "import sys; sys.modules['matcha_paper'] = None\n"
        "import matcha_gnn as mg\n"
        "graph = mg.datasets.csbm(100, 8, seed=0)\n"
        "model = mg.GPRGNN(8, 2); mg.fit(model, graph, epochs=5)\n"
        "print(bool(mg.adapt(model, graph).probs.isfinite().all()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    "blocked", ["fcntl", "matcha_gnn.graphs.stored", "matcha_gnn.graphs.sharded"]
)
def test_a_graph_in_memory_needs_neither_stores_nor_ranks(blocked):
    code = (
        f"import sys; sys.modules['{blocked}'] = None\n"
        "import matcha_gnn as mg\n"
        "graph = mg.datasets.csbm(100, 8, seed=0)\n"
        "model = mg.GPRGNN(8, 2); mg.fit(model, graph, epochs=5)\n"
        "for strategy in (mg.Guarded(), mg.Matcha(rounds=2), mg.Unadapted()):\n"
        "    print(bool(mg.adapt(model, graph, strategy=strategy).probs.isfinite().all()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * 3

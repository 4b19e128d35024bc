"""`lazy_exports`: public names are imported on first use, listed before, and wrong ones say so as Python does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

INIT = """
from deep_core import lazy_exports
__getattr__, __dir__ = lazy_exports(__name__, {"heavy": ["Heavy", "weigh"]})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "acme_lazy"
    folder.mkdir()
    (folder / "__init__.py").write_text(INIT)
    (folder / "heavy.py").write_text("class Heavy: pass\ndef weigh(): return 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("acme_lazy", "acme_lazy.heavy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "acme_lazy"


def test_a_name_is_imported_when_it_is_first_used_and_then_kept(package: str) -> None:
    module = __import__(package)
    assert f"{package}.heavy" not in sys.modules
    assert "Heavy" in dir(module)
    assert module.weigh() == 7
    assert f"{package}.heavy" in sys.modules
    assert vars(module)["weigh"] is module.weigh
    assert "Heavy" not in vars(module)


def test_a_wrong_name_is_said_as_python_says_it(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Hevy'"):
        __import__(package).Hevy  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Hevy'"):
        exec(f"from {package} import Hevy")

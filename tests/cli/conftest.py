"""The command line as the tests call it."""

import functools

import pytest

from holonax.cli import main as cli
from holonax.cli import naming

find_once = functools.cache(naming.find_system)


@pytest.fixture(autouse=True)
def _compile_once(monkeypatch):
    """Commands on one system of the catalogue share its compiled programs; files are read anew."""
    find = naming.find_system
    monkeypatch.setattr(naming, "find_system", lambda name: (find if ".py" in name else find_once)(name))


@pytest.fixture
def shell(monkeypatch, capsys):
    """The command as a shell sees it: exit code, stdout, stderr."""

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["holonax", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return (caught.value.code, *capsys.readouterr())

    return call

"""What a package shows to who looks at it: its public names, its version, and no more."""

from __future__ import annotations

from importlib import import_module, metadata

import pytest

PACKAGES = ("fakeserver", "driver", "harness", "mongowire")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_shows_its_public_names_and_its_version_only(name: str) -> None:
    package = import_module(name)
    shown = dir(package)
    assert shown == sorted([*package.__all__, "__version__"])
    assert all(hasattr(package, each) for each in shown)
    assert package.__version__ == metadata.version("pushbackd")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_name_that_is_none_is_an_attribute_error_that_names_the_package(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'frobnicate'"):
        import_module(name).frobnicate  # noqa: B018 - the look-up is the test

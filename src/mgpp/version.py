"""Which mgpp this is."""

from importlib.metadata import PackageNotFoundError, version


def mgpp_version() -> str:
    try:
        return version("mgpp")
    except PackageNotFoundError:  # run from a source folder that was never installed
        return "unknown"

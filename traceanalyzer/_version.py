"""The version, apart from the package's root so that nothing needs to import the root for it."""

__version__ = "0.2.0"

"""Code that runs inside the traced process. It needs only the standard library and that process's torch.

`traceanalyzer capture` may start a Python that traceanalyzer is not installed in. So the modules here import each
other relatively, and `bootstrap/sitecustomize.py` loads them by their place on disk.
"""

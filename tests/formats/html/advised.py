"""Reports with findings, built by hand: of every severity, latent and not, with and without a saving."""

from __future__ import annotations

from msgspec.structs import replace

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import (
    CodePlace,
    Combined,
    Evidence,
    Finding,
    Headline,
    Relief,
    Report,
    Resources,
    Saving,
)
from traceanalyzer.rules.engine.budget import shown_difference

STEP_NS = 174_760_000.0


def say(text: str) -> Message:
    """A message of no catalog."""
    return Message("of-a-third-party", {}, text)


def saving(low: float, high: float, resource: str = "loader", *, arithmetic: bool = True) -> Saving:
    """What a change is worth, per step of `STEP_NS`."""
    others = [(Text("x-gpu", "GPU")(), 44_049_130.0), (Text("x-host", "host")(), 6_139_870.0)]
    return Saving(
        (high, high * 1.25),
        (low, high),
        (low / STEP_NS, high / STEP_NS),
        say("at most the waiting in which nothing else runs"),
        shown_difference((Text("x-step", "profiled time")(), STEP_NS), others) if arithmetic else None,
        resource,
    )


def finding(rule: str, text: str = "Plain words", **changes: object) -> Finding:
    """A finding in which every text and name is `text`."""
    places = (
        CodePlace("operator", text, shapes=f"[[8, 8], {text}]", value=12_000_000, unit="ns", start_ns=1500),
        CodePlace("step", "7"),
    )
    base = Finding(
        rule=rule,
        run=None,
        severity="high",
        confidence="A",
        latent=False,
        blocked_by=None,
        title=say(f"Title: {text}"),
        summary=say(f"Summary: {text}"),
        advice=say(f"Advice: {text}"),
        not_when=say(f"Not when: {text}"),
        code=f"DataLoader(dataset, num_workers=4)  # {text}",
        links=("https://docs.pytorch.org/docs/stable/data.html", "javascript:alert(1)", text),
        evidence=(Evidence(say(f"Measured: {text}"), 0.75, 0.05, "share", places),),
        saving=saving(100_000_000, 130_710_000),
    )
    return replace(base, **changes)


def advised(report: Report, text: str = "Plain words") -> Report:
    """The report with a headline and findings of all kinds."""
    findings = (
        finding("dataloader-bound", text, severity="critical"),
        finding("fp32-matmul", text, latent=True, blocked_by="loader", saving=saving(0, 0, "gpu", arithmetic=False)),
        finding("small-kernels", text, severity="medium", confidence="B", saving=saving(0, 5_000_000, "host")),
        finding("pageable-copies", text, severity="low", confidence="C", saving=saving(1_000_000, 1_000_000, "gpu")),
        finding("memory-near-limit", text, severity="info", saving=None, code=None, links=()),
        finding("small-kernels", text, severity="medium"),
    )
    fixes = (Relief("dataloader-bound", 0, (100_000_000, 130_710_000)), Relief("small-kernels", 2, (0, 900_000)))
    combined = Combined(fixes, (100_000_000, 131_610_000), (0.572, 0.753), "gpu")
    resources = Resources(STEP_NS, 44_049_130.0, 6_139_870.0, 165_200_000.0, None)
    headline = Headline(None, "input", say(f"Waiting for data: {text}"), 0.75, resources, combined)
    return replace(report, findings=findings, headlines=(headline,))
